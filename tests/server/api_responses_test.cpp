// Responses: OpenAI's newer API as Codex and the SDK use it, against scripted replies.
#include "server/recorded_replies.h"

namespace slip::server::api {
namespace {

constexpr const char* kResponses = "/v1/responses";

json request(json more = json::object()) {
  json body{{"model", "gpt-5"}, {"input", "hi"}};
  if (more.is_object()) body.update(more);
  return body;
}

json tools() {
  json list = json::array();
  for (const json& tool : weather_tools()) {
    json function = tool["function"];
    function["type"] = "function";
    function["strict"] = false;
    list.push_back(function);
  }
  return list;
}

/// Checks the order of a stream's events, and that deltas add up to what `done` says; returns the last response.
json assembled_response(const std::vector<json>& events) {
  json items = json::array(), added;
  std::string part;
  bool item_open = false, part_open = false;
  for (size_t i = 0; i < events.size(); ++i) {
    const json& event = events[i];
    const std::string type = event["type"];
    EXPECT_EQ(event["sequence_number"], i);
    if (i == 0) {
      EXPECT_EQ(type, "response.created");
    }
    if (i == 1) {
      EXPECT_EQ(type, "response.in_progress");
    }
    if (event.contains("output_index")) {
      EXPECT_EQ(event["output_index"], items.size());
    }
    if (event.contains("item_id")) {
      EXPECT_EQ(event["item_id"], added["id"]);
    }
    if (type == "response.output_item.added") {
      EXPECT_FALSE(item_open);
      item_open = true;
      added = event["item"];
      part.clear();
    } else if (type.ends_with("part.added")) {
      EXPECT_TRUE(item_open && !part_open);
      EXPECT_EQ(event["part"]["text"], "");
      part_open = true;
    } else if (type.ends_with(".delta")) {
      EXPECT_TRUE(item_open);
      part += event["delta"].get<std::string>();
    } else if (type.ends_with("part.done")) {
      EXPECT_TRUE(part_open);
      EXPECT_EQ(event["part"]["text"], part);
      part_open = false;
    } else if (type == "response.output_item.done") {
      EXPECT_TRUE(item_open && !part_open);
      EXPECT_EQ(event["item"]["id"], added["id"]);
      EXPECT_EQ(event["item"]["type"], added["type"]);
      items.push_back(event["item"]);
      item_open = false;
    } else if (type.ends_with(".done")) {
      for (const char* key : {"text", "arguments", "input"}) {
        if (event.contains(key)) {
          EXPECT_EQ(event[key], part);
        }
      }
    } else if (i > 1 && type != "response.in_progress") {
      EXPECT_EQ(i + 1, events.size()) << type;
    }
  }
  const json& last = events.back()["response"];
  EXPECT_EQ(last["output"], items) << "the end repeats what was told";
  return last;
}

json heard(const json& response) {
  json heard{{"content", ""}, {"reasoning", ""}, {"calls", json::array()}, {"status", response["status"]}};
  for (const json& item : response["output"]) {
    const auto append = [&](const char* to, const json& parts) {
      for (const json& part : parts)
        heard[to] = heard[to].get<std::string>() + part["text"].get<std::string>();
    };
    if (item["type"] == "message") append("content", item["content"]);
    if (item["type"] == "reasoning")
      append("reasoning", item.contains("content") ? item["content"] : item["summary"]);
    if (item["type"] == "function_call")
      heard["calls"].push_back({{"name", item["name"]}, {"arguments", item["arguments"]}});
  }
  return heard;
}

json expected_of(const Recorded& reply) {
  json calls = json::array();
  for (const auto& [name, arguments] : reply.calls)
    calls.push_back({{"name", name}, {"arguments", arguments}});
  return {
      {"content", reply.content}, {"reasoning", reply.reasoning}, {"calls", calls}, {"status", "completed"}};
}

TEST(Responses, users_12_a_recorded_reply_is_the_same_message_at_every_split_streamed_and_not) {
  Server server;
  for (const Recorded& reply : recorded()) {
    SCOPED_TRACE(reply.name);
    server.says(reply.reply);
    json body = request({{"tools", tools()}});
    const auto whole = server.ask(kResponses, body);
    ASSERT_EQ(whole->status(), 200) << whole->text().substr(0, 300);
    EXPECT_EQ(heard(whole->body()), expected_of(reply));
    body["stream"] = true;
    at_every_split(server, reply, [&] {
      const auto stream = server.ask(kResponses, body);
      const json response = assembled_response(stream->named_events());
      ASSERT_EQ(heard(response), expected_of(reply));
      ASSERT_EQ(response["output"].size(), whole->body()["output"].size());
      ASSERT_EQ(response["usage"], whole->body()["usage"]);
    });
  }
}

TEST(Responses, users_8_a_stream_has_exactly_the_events_of_the_original_in_their_order) {
  Server server;
  server.says("<|channel>thought\nh\n<channel|>i<|tool_call>call:ping{}<tool_call|>",
              {.tokens = {}, .steps = {30}});
  const auto names = [&](const json& more) {
    json body = request({{"tools", tools()}, {"stream", true}});
    body.update(more);
    std::vector<std::string> seen;
    for (const json& event : server.ask(kResponses, body)->named_events()) seen.push_back(event["type"]);
    return seen;
  };
  const std::vector<std::string> expected{"response.created",
                                          "response.in_progress",
                                          "response.output_item.added",
                                          "response.content_part.added",
                                          "response.reasoning_text.delta",
                                          "response.reasoning_text.done",
                                          "response.content_part.done",
                                          "response.output_item.done",
                                          "response.output_item.added",
                                          "response.content_part.added",
                                          "response.output_text.delta",
                                          "response.output_text.done",
                                          "response.content_part.done",
                                          "response.output_item.done",
                                          "response.output_item.added",
                                          "response.function_call_arguments.delta",
                                          "response.function_call_arguments.done",
                                          "response.output_item.done",
                                          "response.completed"};
  EXPECT_EQ(names(json::object()), expected);
  std::vector<std::string> summed = expected;
  summed[3] = "response.reasoning_summary_part.added";
  summed[4] = "response.reasoning_summary_text.delta";
  summed[5] = "response.reasoning_summary_text.done";
  summed[6] = "response.reasoning_summary_part.done";
  EXPECT_EQ(names({{"reasoning", {{"summary", "auto"}}}}), summed);
}

TEST(Responses, an_answer_has_the_parts_that_clients_expect) {
  Server server;
  server.says("hello");
  const json response =
      server
          .ask(kResponses,
               request({{"metadata", {{"run", "5"}}}, {"store", true}, {"instructions", "be kind"}}))
          ->body();
  EXPECT_TRUE(response["id"].get<std::string>().starts_with("resp_"));
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["model"], server.service->model_id());
  EXPECT_EQ(response["store"], false) << "nothing is stored, and the answer says so";
  EXPECT_EQ(response["metadata"]["run"], "5");
  EXPECT_EQ(response["instructions"], "be kind");
  EXPECT_EQ(response["tool_choice"], "auto");
  EXPECT_TRUE(response["error"].is_null());
  EXPECT_TRUE(response["previous_response_id"].is_null());
  const json& message = response["output"][0];
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(message["content"][0]["annotations"], json::array());
  EXPECT_EQ(response["usage"]["input_tokens"].get<size_t>(), server.replies.last_prompt.size());
  EXPECT_EQ(response["usage"]["input_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(response["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_EQ(response["usage"]["total_tokens"],
            response["usage"]["input_tokens"].get<int>() + response["usage"]["output_tokens"].get<int>());
}

TEST(Responses, users_10_a_quiet_stream_says_in_progress_and_goes_on) {
  Server server;
  server.says("hello", {.tokens = {}, .pause_at = 0});
  const auto stream = server.post(kResponses, request({{"stream", true}}));
  expect_life(server, *stream, 330);
  EXPECT_GE(stream->named_events().size(), 20u);
  server.replies.go_on();
  stream->wait();
  EXPECT_EQ(heard(assembled_response(stream->named_events()))["content"], "hello");
}

TEST(Responses, the_end_of_the_room_is_incomplete) {
  Server server;
  server.says("hello");
  for (const bool stream : {false, true}) {
    const auto got = server.ask(kResponses, request({{"max_output_tokens", 2}, {"stream", stream}}));
    const json response = stream ? assembled_response(got->named_events()) : got->body();
    EXPECT_EQ(response["status"], "incomplete");
    EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
    EXPECT_EQ(response["output"][0]["status"], "incomplete");
    if (stream) {
      EXPECT_EQ(got->named_events().back()["type"], "response.incomplete");
    }
  }
}

TEST(Responses, a_failure_in_mid_stream_is_response_failed_and_the_items_so_far_are_closed) {
  Server server;
  server.says("hello", {.tokens = {}, .fail_at = 3});
  const auto stream = server.ask(kResponses, request({{"stream", true}}));
  const json response = assembled_response(stream->named_events());
  EXPECT_EQ(response["status"], "failed");
  EXPECT_EQ(response["error"]["code"], "internal_error");
  EXPECT_FALSE(response["error"]["message"].get<std::string>().empty());
  EXPECT_GT(response["usage"]["input_tokens"], 0);
  EXPECT_EQ(server.ask(kResponses, request())->status(), 500);
}

std::string prompt_of(Server& server, const json& body) {
  const auto got = server.ask(kResponses, body);
  EXPECT_EQ(got->status(), 200) << got->text().substr(0, 400);
  return scripted_model().tokenizer().decode(server.replies.last_prompt, {.skip_specials = false});
}

void expect_order(const std::string& prompt, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t found = prompt.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << " in " << prompt;
    at = found;
  }
}

TEST(Responses, users_8_what_codex_sends_is_read_in_its_order) {
  Server server({}, true, 4096);
  server.says("a");
  const json input = json::parse(R"([
      {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "base prompt"}]},
      {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "more"},
                                                            {"type": "input_text", "text": "rules"}]},
      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>"}]},
      {"role": "user", "content": "look"},
      {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "i look"}], "content": null,
       "encrypted_content": "gAAAA"},
      {"type": "web_search_call", "id": "ws_1", "status": "completed"},
      {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ping", "arguments": ""},
      {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "spawn", "namespace": "agents",
       "arguments": "{\"n\": 2}"},
      {"type": "message", "role": "developer", "content": "in between"},
      {"type": "function_call_output", "call_id": "call_1", "output": "pong"},
      {"type": "function_call_output", "id": "fco_1", "call_id": "call_2",
       "output": [{"type": "input_image", "image_url": "data:,", "detail": "high"}]}])");
  const json list = json::parse(R"([
      {"type": "function", "name": "ping", "strict": false, "parameters": {"type": "object"}},
      {"type": "namespace", "name": "agents", "description": "d",
       "tools": [{"type": "function", "name": "spawn", "parameters": {"type": "object"}}]},
      {"type": "custom", "name": "patch", "description": "applies it", "format": {"type": "grammar"}},
      {"type": "web_search", "external_web_access": true}])");
  const std::string prompt = prompt_of(server, {{"model", ""},
                                                {"input", input},
                                                {"tools", list},
                                                {"store", false},
                                                {"include", {"reasoning.encrypted_content"}},
                                                {"prompt_cache_key", "t"},
                                                {"parallel_tool_calls", true},
                                                {"client_metadata", {{"x", "y"}}},
                                                {"reasoning", {{"summary", "auto"}}}});
  expect_order(prompt,
               {"base prompt", "more\nrules", "<environment_context>", "look", "i look", "call:ping{}",
                "call:agents.spawn{n:2}", "pong", "[image: this server cannot see]", "in between"});
  EXPECT_NE(prompt.find("declaration:patch"), std::string::npos) << prompt;
  EXPECT_EQ(prompt.find("web_search"), std::string::npos);
  server.settle();
  int left_out = 0;
  for (const std::string& line : server.log()) left_out += line.find("left out") != std::string::npos ? 1 : 0;
  EXPECT_EQ(left_out, 2) << "the tool and the item";
}

TEST(Responses, calls_go_out_as_their_tools_came_in) {
  Server server({}, true, 4096);
  const json list = json::parse(R"([
      {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
      {"type": "custom", "name": "patch"}])");
  for (const bool stream : {false, true}) {
    server.says(
        "<|tool_call>call:agents.spawn{n:2}<tool_call|><|tool_call>call:patch{input:<|\"|>a "
        "b<|\"|>}<tool_call|>");
    const auto got = server.ask(kResponses, request({{"tools", list}, {"stream", stream}}));
    const json response = stream ? assembled_response(got->named_events()) : got->body();
    const json& first = response["output"][0];
    EXPECT_EQ(first["type"], "function_call");
    EXPECT_EQ(first["name"], "spawn");
    EXPECT_EQ(first["namespace"], "agents");
    const json& second = response["output"][1];
    EXPECT_EQ(second["type"], "custom_tool_call");
    EXPECT_EQ(second["input"], "a b");
    // And back.
    json input = {{{"role", "user"}, {"content", "x"}},
                  first,
                  second,
                  {{"type", "function_call_output"}, {"call_id", first["call_id"]}, {"output", "one"}},
                  {{"type", "custom_tool_call_output"}, {"call_id", second["call_id"]}, {"output", "two"}}};
    server.says("a");
    expect_order(prompt_of(server, request({{"tools", list}, {"input", input}})),
                 {"call:agents.spawn{n:2}", "call:patch{input:", "one", "two"});
  }
}

TEST(Responses, a_thought_comes_back_in_each_of_its_forms) {
  Server server({}, true, 4096);
  for (const json& asked : {json::object(), json{{"reasoning", {{"summary", "auto"}}}},
                            json{{"include", {"reasoning.encrypted_content"}}}}) {
    server.says("<|channel>thought\ndeep water\n<channel|><|tool_call>call:ping{}<tool_call|>");
    json body = request({{"tools", tools()}});
    body.update(asked);
    json output = server.ask(kResponses, body)->body()["output"];
    ASSERT_EQ(output[0]["type"], "reasoning");
    if (asked.contains("include")) {
      EXPECT_TRUE(output[0]["encrypted_content"].is_string());
      output[0].erase("content");
    }
    json input = {{{"role", "user"}, {"content", "x"}},
                  output[0],
                  output[1],
                  {{"type", "function_call_output"}, {"call_id", output[1]["call_id"]}, {"output", "one"}}};
    server.says("a");
    expect_order(prompt_of(server, request({{"tools", tools()}, {"input", input}})),
                 {"deep water", "call:ping", "one"});
  }
}

TEST(Responses, allowed_tools_narrow_the_list) {
  Server server({}, true, 4096);
  server.says("a");
  const json one = json::array({tools()[1]});
  const json choice{
      {"type", "allowed_tools"}, {"mode", "auto"}, {"tools", {{{"type", "function"}, {"name", "ping"}}}}};
  EXPECT_EQ(prompt_of(server, request({{"tools", tools()}, {"tool_choice", choice}})),
            prompt_of(server, request({{"tools", one}})));
}

TEST(Responses, logprobs_come_with_the_text_when_included) {
  Server server;
  for (const bool stream : {false, true}) {
    server.says("ab");
    const auto got = server.ask(
        kResponses,
        request({{"include", {"message.output_text.logprobs"}}, {"top_logprobs", 2}, {"stream", stream}}));
    const json response = stream ? assembled_response(got->named_events()) : got->body();
    const json& scores = response["output"][0]["content"][0]["logprobs"];
    ASSERT_EQ(scores.size(), 2u);
    EXPECT_EQ(scores[0]["token"], "a");
    EXPECT_EQ(scores[0]["top_logprobs"].size(), 2u);
  }
}

TEST(Responses, users_7_a_long_prompt_has_the_code_that_codex_reads) {
  Server server({}, true, 64);
  const auto got = server.ask(kResponses, request({{"input", std::string(100, 'x')}}));
  EXPECT_EQ(got->status(), 400);
  EXPECT_EQ(got->body()["error"]["code"], "context_length_exceeded");
}

struct Wrong {
  const char* field;
  json value;
  const char* named;  // null: the field
};

TEST(Responses, what_is_wrong_is_refused_by_its_place) {
  Server server;
  server.says("a");
  const auto item = [](json one) { return json::array({std::move(one)}); };
  const auto part = [](json one) { return json{{{"role", "user"}, {"content", {std::move(one)}}}}; };
  const json function{{"type", "function"}, {"name", "f"}};
  const std::vector<Wrong> wrongs{
      {"input", nullptr, nullptr},
      {"input", 5, nullptr},
      {"input", json::array(), nullptr},
      {"input", item(5), "input[0]"},
      {"input", item(json::object()), "input[0].type"},
      {"input", item({{"type", "smell"}}), "input[0].type"},
      {"input", item({{"type", "item_reference"}, {"id", "x"}}), "input[0].type"},
      {"input", item({{"role", "user"}}), "input[0].content"},
      {"input", item({{"role", "wizard"}, {"content", "x"}}), "input[0].role"},
      {"input", item({{"role", "user"}, {"content", 5}}), "input[0].content"},
      {"input", part(5), "input[0].content[0]"},
      {"input", part(json::object()), "input[0].content[0].type"},
      {"input", part({{"type", "smell"}}), "input[0].content[0].type"},
      {"input", part({{"type", "input_text"}}), "input[0].content[0].text"},
      {"input", part({{"type", "input_image"}, {"image_url", "data:,"}}), "input[0].content[0]"},
      {"input", part({{"type", "input_file"}, {"file_data", ""}}), "input[0].content[0]"},
      {"input", item({{"type", "function_call"}, {"call_id", "c"}}), "input[0].name"},
      {"input", item({{"type", "function_call"}, {"name", "f"}}), "input[0].call_id"},
      {"input", item({{"type", "function_call_output"}, {"call_id", "c"}, {"output", "x"}}),
       "input[0].call_id"},
      {"input", item({{"type", "function_call_output"}, {"call_id", "c"}}), "input[0].output"},
      {"instructions", 5, nullptr},
      {"previous_response_id", "resp_1", nullptr},
      {"conversation", "conv_1", nullptr},
      {"background", true, nullptr},
      {"prompt", {{"id", "p"}}, nullptr},
      {"tools", 5, nullptr},
      {"tools", {5}, "tools[0]"},
      {"tools", {json::object()}, "tools[0].type"},
      {"tools", {{{"type", "function"}}}, "tools[0].name"},
      {"tools", {{{"type", "function"}, {"name", "f"}, {"parameters", 5}}}, "tools[0].parameters"},
      {"tools",
       {{{"type", "namespace"}, {"name", "n"}, {"tools", {{{"type", "function"}}}}}},
       "tools[0].tools[0].name"},
      {"tool_choice", "required", nullptr},
      {"tool_choice", "perhaps", nullptr},
      {"tool_choice", {{"type", "function"}, {"name", "absent"}}, "tool_choice.name"},
      {"tool_choice", {{"type", "web_search"}}, "tool_choice.type"},
      {"tool_choice",
       {{"type", "allowed_tools"}, {"mode", "required"}, {"tools", json::array()}},
       "tool_choice.mode"},
      {"text", {{"format", {{"type", "json_schema"}, {"schema", json::object()}}}}, "text.format.type"},
      {"text", {{"format", {{"type", "yaml"}}}}, "text.format.type"},
      {"max_output_tokens", 0, nullptr},
      {"max_output_tokens", "x", nullptr},
      {"truncation", "perhaps", nullptr},
      {"metadata", 5, nullptr},
      {"include", 5, nullptr},
      {"top_logprobs", 21, nullptr},
      {"temperature", -1, nullptr},
      {"n", 2, nullptr},
      {"reasoning", {{"effort", "extreme"}}, "reasoning.effort"},
      {"stream", 5, nullptr},
  };
  for (const Wrong& wrong : wrongs) {
    SCOPED_TRACE(std::string(wrong.field) + " " + wrong.value.dump());
    const auto got = server.ask(kResponses, request({{wrong.field, wrong.value}}));
    EXPECT_EQ(got->status(), 400);
    ASSERT_TRUE(got->body().contains("error")) << got->text().substr(0, 200);
    EXPECT_EQ(got->body()["error"]["param"], wrong.named == nullptr ? wrong.field : wrong.named);
  }
  EXPECT_EQ(server.service->active(), 0u);
}

TEST(Responses, what_is_asked_and_not_kept_is_told) {
  Server server;
  server.says("a");
  const json response =
      server
          .ask(kResponses,
               request({{"truncation", "auto"}, {"text", {{"format", {{"type", "json_object"}}}}}}))
          ->body();
  EXPECT_EQ(response["warnings"].size(), 2u);
}

}  // namespace
}  // namespace slip::server::api
