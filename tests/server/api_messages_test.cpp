// Messages: Anthropic's API as its clients use it, against scripted replies.
#include "server/recorded_replies.h"

namespace slip::server::api {
namespace {

constexpr const char* kMessages = "/v1/messages";

json request(json more = json::object()) {
  json body{{"model", "claude-opus-4-8"},
            {"max_tokens", 32000},
            {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  if (more.is_object()) body.update(more);
  return body;
}

json tools() {
  json list = json::array();
  for (const json& tool : weather_tools()) {
    const json& function = tool["function"];
    list.push_back({{"name", function["name"]},
                    {"description", "does it"},
                    {"input_schema", function.value("parameters", json{{"type", "object"}})},
                    {"cache_control", {{"type", "ephemeral"}}}});
  }
  return list;
}

/// A stream put together as the SDK does it, with the order of its events checked: a message like the whole one.
json assembled_message(const std::vector<json>& events) {
  json message;
  std::string input;  // of the open block
  bool open = false, over = false;
  for (size_t i = 0; i < events.size(); ++i) {
    const json& event = events[i];
    const std::string type = event["type"];
    EXPECT_FALSE(over) << "something follows message_stop";
    EXPECT_EQ(type == "message_start", i == 0);
    if (type == "message_start") {
      message = event["message"];
      EXPECT_EQ(message["content"], json::array());
      EXPECT_TRUE(message["stop_reason"].is_null());
    } else if (type == "content_block_start") {
      EXPECT_FALSE(open);
      EXPECT_EQ(event["index"], message["content"].size());
      message["content"].push_back(event["content_block"]);
      open = true;
      input.clear();
    } else if (type == "content_block_delta") {
      EXPECT_TRUE(open);
      EXPECT_EQ(event["index"].get<size_t>() + 1, message["content"].size());
      json& block = message["content"].back();
      const json& delta = event["delta"];
      const auto append = [&](const char* key) {
        block[key] = block[key].get<std::string>() + delta[key].get<std::string>();
      };
      if (delta["type"] == "text_delta") append("text");
      if (delta["type"] == "thinking_delta") append("thinking");
      if (delta["type"] == "signature_delta") block["signature"] = delta["signature"];
      if (delta["type"] == "input_json_delta") input += delta["partial_json"].get<std::string>();
    } else if (type == "content_block_stop") {
      EXPECT_TRUE(open);
      json& block = message["content"].back();
      if (block["type"] == "tool_use") block["input"] = input.empty() ? json::object() : json::parse(input);
      open = false;
    } else if (type == "message_delta") {
      EXPECT_FALSE(open);
      message.update(event["delta"]);
      message["usage"].update(event["usage"]);
    } else if (type == "message_stop") {
      over = true;
    } else {
      ADD_FAILURE() << "unknown event " << type;
    }
  }
  EXPECT_TRUE(over);
  return message;
}

/// What a recorded reply is about, out of a message.
json heard(const json& message) {
  json heard{{"content", ""}, {"reasoning", ""}, {"calls", json::array()}, {"stop", message["stop_reason"]}};
  for (const json& block : message["content"]) {
    const auto append = [&](const char* to, const char* from) {
      heard[to] = heard[to].get<std::string>() + block[from].get<std::string>();
    };
    if (block["type"] == "text") append("content", "text");
    if (block["type"] == "thinking") append("reasoning", "thinking");
    if (block["type"] == "tool_use") {
      EXPECT_TRUE(block["id"].get<std::string>().starts_with("toolu_"));
      heard["calls"].push_back({{"name", block["name"]}, {"input", block["input"]}});
    }
  }
  return heard;
}

json expected_of(const Recorded& reply) {
  json calls = json::array();
  for (const auto& [name, arguments] : reply.calls)
    calls.push_back({{"name", name}, {"input", json::parse(arguments)}});
  return {{"content", reply.content},
          {"reasoning", reply.reasoning},
          {"calls", calls},
          {"stop", reply.calls.empty() ? "end_turn" : "tool_use"}};
}

TEST(Messages, users_12_a_recorded_reply_is_the_same_message_at_every_split_streamed_and_not) {
  Server server;
  for (const Recorded& reply : recorded()) {
    SCOPED_TRACE(reply.name);
    server.says(reply.reply);
    json body = request({{"tools", tools()}});
    const auto whole = server.ask(kMessages, body);
    ASSERT_EQ(whole->status(), 200) << whole->text().substr(0, 300);
    EXPECT_EQ(heard(whole->body()), expected_of(reply));
    body["stream"] = true;
    at_every_split(server, reply, [&] {
      const auto stream = server.ask(kMessages, body);
      const json message = assembled_message(stream->named_events());
      ASSERT_EQ(heard(message), expected_of(reply));
      ASSERT_EQ(message["content"].size(), whole->body()["content"].size());
      ASSERT_EQ(message["usage"], whole->body()["usage"]);
    });
  }
}

TEST(Messages, an_answer_has_the_parts_that_clients_expect) {
  Server server;
  server.says("<|channel>thought\nhm\n<channel|>hello");
  const json message = server.ask(kMessages, request())->body();
  EXPECT_TRUE(message["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(message["model"], server.service->model_id()) << "the true id, whatever was asked for";
  EXPECT_EQ(message["content"][0]["type"], "thinking");
  EXPECT_NE(message["content"][0]["signature"], "");
  EXPECT_EQ(message["content"][1], (json{{"type", "text"}, {"text", "hello"}}));
  EXPECT_TRUE(message["stop_sequence"].is_null());
  EXPECT_EQ(message["usage"]["input_tokens"].get<size_t>(), server.replies.last_prompt.size());
  EXPECT_EQ(message["usage"]["cache_read_input_tokens"], 0);
  EXPECT_EQ(message["usage"]["cache_creation_input_tokens"], 0);
  EXPECT_GT(message["usage"]["output_tokens"], 0);
  EXPECT_TRUE(message["timings"].is_object());
  EXPECT_FALSE(message.contains("warnings"));
}

TEST(Messages,
     users_10_a_stream_begins_before_the_first_token_and_signs_of_life_are_deltas_that_clients_count) {
  Server server;
  for (const bool thinking : {false, true}) {
    server.says("hello", {.tokens = {}, .pause_at = 0});
    const auto stream = server.post(
        kMessages, request({{"stream", true}, {"thinking", {{"type", thinking ? "adaptive" : "disabled"}}}}));
    stream->wait_for("message_start");
    EXPECT_EQ(stream->named_events().size(), 1u);
    expect_life(server, *stream, 330);
    const size_t signs = stream->named_events().size();
    EXPECT_GE(signs, 20u);
    server.replies.go_on();
    stream->wait();
    const auto events = stream->named_events();
    for (size_t i = 2; i < signs; ++i) EXPECT_EQ(events[i]["type"], "content_block_delta");
    EXPECT_EQ(events[1]["content_block"]["type"], thinking ? "thinking" : "text");
    const json message = assembled_message(events);
    EXPECT_EQ(heard(message)["content"], "hello");
    EXPECT_EQ(message["content"].size(), thinking ? 2u : 1u);
  }
}

/// The prompt that a body becomes.
std::string prompt_of(Server& server, const json& body) {
  const auto got = server.ask(kMessages, body);
  EXPECT_EQ(got->status(), 200) << got->text().substr(0, 400);
  return scripted_model().tokenizer().decode(server.replies.last_prompt, {.skip_specials = false});
}

TEST(Messages, users_3_system_messages_may_stand_anywhere_and_unknown_blocks_are_left_out) {
  Server server({}, true, 4096);
  server.says("a");
  const json messages = {
      {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "first"}}, {{"type", "smell"}, {"x", 1}}}}},
      {{"role", "system"}, {"content", "be brief"}},
      {{"role", "assistant"}, {"content", "yes"}},
      {{"role", "user"}, {"content", "second"}}};
  const std::string prompt =
      prompt_of(server, request({{"system", "you help"}, {"messages", messages}, {"some_new_field", 5}}));
  const std::vector<std::string> order{"system\nyou help", "user\nfirst", "system\nbe brief", "model\nyes",
                                       "user\nsecond"};
  size_t at = 0;
  for (const std::string& part : order) {
    const size_t found = prompt.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << " in " << prompt;
    at = found;
  }
  server.settle();
  bool told = false;
  for (const std::string& line : server.log())
    told |= line.find("left out blocks of type 'smell'") != std::string::npos;
  EXPECT_TRUE(told);
}

TEST(Messages, users_5_the_billing_header_is_dropped) {
  Server server;
  server.says("a");
  const auto with = [&](const char* first) {
    const json system = {{{"type", "text"}, {"text", first}}, {{"type", "text"}, {"text", "you help"}}};
    return prompt_of(server, request({{"system", system}}));
  };
  const std::string plain = prompt_of(server, request({{"system", "you help"}}));
  EXPECT_EQ(with("x-anthropic-billing-header: cc_version=2.1.197.8a5; cc_entrypoint=sdk-cli;"), plain);
  EXPECT_EQ(with("x-anthropic-billing-header: cc_version=2.1.197.111; cch=5f;"), plain);
}

TEST(Messages, users_6_what_is_for_other_servers_never_changes_the_prompt) {
  Server server;
  server.says("a");
  const std::string plain = prompt_of(server, request({{"tools", tools()}}));
  json body = request({{"tools", tools()},
                       {"metadata", {{"user_id", "{\"device\": 5}"}}},
                       {"context_management", {{"edits", json::array()}}},
                       {"service_tier", "auto"}});
  for (json& tool : body["tools"]) tool.erase("cache_control");
  body["messages"][0]["content"] = {
      {{"type", "text"}, {"text", "hi"}, {"cache_control", {{"type", "ephemeral"}}}}};
  EXPECT_EQ(prompt_of(server, body), plain);
}

/// A round with a tool: the call, its result, and words beside the result.
json tool_round(const std::string& beside) {
  json result = {
      {{"type", "tool_result"},
       {"tool_use_id", "toolu_1"},
       {"content", {{{"type", "text"}, {"text", "18 degrees"}}, {{"type", "image"}, {"source", {}}}}}}};
  if (!beside.empty()) result.push_back({{"type", "text"}, {"text", beside}});
  return {
      {{"role", "user"}, {"content", "weather?"}},
      {{"role", "assistant"},
       {"content",
        {{{"type", "thinking"}, {"thinking", "ask the tool"}, {"signature", ""}},
         {{"type", "redacted_thinking"}, {"data", "x"}},
         {{"type", "tool_use"}, {"id", "toolu_1"}, {"name", "get_weather"}, {"input", {{"city", "rome"}}}}}}},
      {{"role", "user"}, {"content", result}}};
}

TEST(Messages, users_19_a_result_with_a_reminder_keeps_the_thoughts_of_the_running_chain) {
  Server server({}, true, 4096);
  server.says("a");
  for (const char* beside : {"", "<system-reminder>todo list is empty</system-reminder>"}) {
    const std::string prompt =
        prompt_of(server, request({{"messages", tool_round(beside)}, {"tools", tools()}}));
    EXPECT_NE(prompt.find("ask the tool"), std::string::npos) << prompt;
    EXPECT_NE(prompt.find("18 degrees"), std::string::npos);
    EXPECT_NE(prompt.find("[image: this server cannot see]"), std::string::npos);
    EXPECT_NE(prompt.find(beside), std::string::npos);
  }
  const std::string spoken =
      prompt_of(server, request({{"messages", tool_round("stop it")}, {"tools", tools()}}));
  EXPECT_NE(spoken.find("user\nstop it"), std::string::npos) << "what a person says is a turn";
}

TEST(Messages, a_system_message_between_a_call_and_its_result_comes_behind_the_result) {
  Server server({}, true, 4096);
  server.says("a");
  json messages = tool_round("");
  const json news{{"role", "system"}, {"content", "news"}};
  messages.insert(messages.begin() + 2, news);
  const std::string prompt = prompt_of(server, request({{"messages", messages}, {"tools", tools()}}));
  EXPECT_LT(prompt.find("18 degrees"), prompt.find("system\nnews")) << prompt;
}

TEST(Messages, a_result_that_is_an_error_says_so) {
  Server server({}, true, 4096);
  server.says("a");
  json messages = tool_round("");
  messages[2]["content"][0]["is_error"] = true;
  messages[2]["content"][0]["content"] = "no such city";
  EXPECT_NE(prompt_of(server, request({{"messages", messages}})).find("Error: no such city"),
            std::string::npos);
}

TEST(Messages, a_last_assistant_message_is_continued) {
  Server server;
  server.says(" world");
  const json messages = {{{"role", "user"}, {"content", "say it"}},
                         {{"role", "assistant"}, {"content", {{{"type", "text"}, {"text", "hello"}}}}}};
  EXPECT_TRUE(prompt_of(server, request({{"messages", messages}})).ends_with("model\nhello"));
  EXPECT_EQ(server.ask(kMessages, request({{"messages", messages}}))->body()["content"][0]["text"], " world");
}

TEST(Messages, stop_sequences_end_the_text_and_are_named) {
  Server server;
  for (const bool stream : {false, true}) {
    for (const json& stops : {json::array({"three"}), json::array({"xx", "three", "hree f"})}) {
      server.says("one two three four");
      const auto got = server.ask(kMessages, request({{"stop_sequences", stops}, {"stream", stream}}));
      const json message = stream ? assembled_message(got->named_events()) : got->body();
      EXPECT_EQ(message["content"][0]["text"], "one two ");
      EXPECT_EQ(message["stop_reason"], "stop_sequence");
      EXPECT_EQ(message["stop_sequence"], "three");
    }
  }
}

TEST(Messages, of_two_stop_sequences_in_one_token_the_one_that_ends_first_is_named_and_the_longest_of_those) {
  Server server;
  const auto named = [&](const json& stops) {
    server.replies.set({.tokens = {test::kScriptBegin + 7}});  // "answer"
    return server.ask(kMessages, request({{"stop_sequences", stops}}))->body()["stop_sequence"];
  };
  EXPECT_EQ(named(json::array({"we", "sw"})), "sw");
  EXPECT_EQ(named(json::array({"sw", "we"})), "sw");
  EXPECT_EQ(named(json::array({"sw", "nsw"})), "nsw");
  EXPECT_EQ(named(json::array({"nsw", "sw"})), "nsw");
}

TEST(Messages, max_tokens_is_clamped_to_the_room_and_its_end_has_a_name) {
  Server server({}, true, 64);
  server.says("hello");
  const auto got = server.ask(kMessages, request());
  EXPECT_EQ(got->status(), 200);
  EXPECT_EQ(server.replies.last_max_tokens, 64 - static_cast<int>(server.replies.last_prompt.size()));
  EXPECT_EQ(server.ask(kMessages, request({{"max_tokens", 2}}))->body()["stop_reason"], "max_tokens");
}

TEST(Messages, users_7_a_long_prompt_is_refused_with_the_words_that_claude_code_reads) {
  Server server({}, true, 64);
  json body = request();
  body["messages"][0]["content"] = std::string(100, 'x');
  const auto got = server.ask(kMessages, body);
  EXPECT_EQ(got->status(), 400);
  EXPECT_EQ(got->body()["type"], "error");
  EXPECT_EQ(got->body()["error"]["type"], "invalid_request_error");
  const std::string message = got->body()["error"]["message"];
  EXPECT_TRUE(message.starts_with("prompt is too long: ")) << message;
  EXPECT_TRUE(message.ends_with(" tokens > 63 maximum")) << message;
}

TEST(Messages, count_tokens_counts_what_a_message_would_read) {
  Server server({}, true, 4096);
  server.says("a");
  for (const json& body : {request(), request({{"system", "be brief"}, {"tools", tools()}}),
                           request({{"messages", tool_round("")}, {"thinking", {{"type", "adaptive"}}}})}) {
    json counted = body;
    counted.erase("max_tokens");
    const auto got = server.ask("/v1/messages/count_tokens", counted);
    ASSERT_EQ(got->status(), 200) << got->text();
    ASSERT_EQ(server.ask(kMessages, body)->status(), 200);
    EXPECT_EQ(got->body(), (json{{"input_tokens", server.replies.last_prompt.size()}}));
  }
}

TEST(Messages, a_format_is_answered_unenforced_with_a_warning) {
  Server server;
  server.says("abc");
  const json format{{"format", {{"type", "json_schema"}, {"schema", {{"type", "object"}}}}}};
  for (const bool stream : {false, true}) {
    const auto got = server.ask(kMessages, request({{"output_config", format}, {"stream", stream}}));
    ASSERT_EQ(got->status(), 200) << got->text();
    if (!stream) {
      EXPECT_EQ(got->body()["warnings"].size(), 1u);
    } else {
      const auto events = got->named_events();
      EXPECT_EQ(events[events.size() - 2]["warnings"].size(), 1u);
    }
  }
}

TEST(Messages, chats_sampling_fields_are_extensions) {
  Server server;
  server.says("abc");
  const json message =
      server.ask(kMessages, request({{"seed", 7}, {"min_p", 0.5}, {"top_k", 3}, {"draft", false}}))->body();
  EXPECT_EQ(message["seed"], 7);
  EXPECT_EQ(server.replies.last_sampling.seed, 7u);
  EXPECT_EQ(server.replies.last_sampling.top_k, 3);
  EXPECT_FALSE(server.replies.last_draft);
}

TEST(Messages, users_9_a_full_server_is_529_in_anthropics_shape) {
  ServiceOptions options;
  options.limits.queue = 0;
  Server small(options);
  small.replies.load_now.sequences = 1;
  small.says("abc", {.tokens = {}, .pause_at = 1});
  const auto first = small.post(kMessages, request());
  const auto refused = small.post(kMessages, request());
  EXPECT_EQ(refused->status(), 529);
  EXPECT_EQ(refused->body()["type"], "error");
  EXPECT_EQ(refused->body()["error"]["type"], "overloaded_error");
  EXPECT_NE(refused->header("Retry-After"), "");
  small.replies.go_on();
  first->wait();
}

TEST(Messages, a_failure_in_mid_stream_is_an_error_event) {
  Server server;
  server.says("hello", {.tokens = {}, .fail_at = 2});
  const auto stream = server.ask(kMessages, request({{"stream", true}}));
  const json last = stream->named_events().back();
  EXPECT_EQ(last["type"], "error");
  EXPECT_EQ(last["error"]["type"], "api_error");
  EXPECT_GT(last["usage"]["input_tokens"], 0) << "what it cost is known even so";
  EXPECT_EQ(server.ask(kMessages, request())->status(), 500);
}

struct Wrong {
  const char* why;
  json more;
  const char* named;  // what the message begins with
};

TEST(Messages, what_is_wrong_is_refused_by_its_place) {
  Server server;
  server.says("a");
  const auto user = [](json content) {
    return json{{"messages", {{{"role", "user"}, {"content", std::move(content)}}}}};
  };
  const auto assistant = [](json content) {
    return json{
        {"messages",
         {{{"role", "user"}, {"content", "x"}}, {{"role", "assistant"}, {"content", std::move(content)}}}}};
  };
  const json image{{"type", "image"}, {"source", {{"type", "base64"}, {"data", ""}}}};
  const std::vector<Wrong> wrongs{
      {"no messages", {{"messages", nullptr}}, "messages:"},
      {"messages are no list", {{"messages", "hi"}}, "messages:"},
      {"none", {{"messages", json::array()}}, "messages:"},
      {"no object", {{"messages", {5}}}, "messages[0]:"},
      {"no role", {{"messages", {{{"content", "x"}}}}}, "messages[0].role:"},
      {"odd role", {{"messages", {{{"role", "tool"}, {"content", "x"}}}}}, "messages[0].role:"},
      {"no content", {{"messages", {{{"role", "user"}}}}}, "messages[0].content:"},
      {"content is a number", user(5), "messages[0].content:"},
      {"block is a number", user({5}), "messages[0].content[0]:"},
      {"block without a type", user(json::array({json::object()})), "messages[0].content[0].type:"},
      {"text without text", user({{{"type", "text"}}}), "messages[0].content[0].text:"},
      {"image", user(json::array({image})), "messages[0].content[0]:"},
      {"image of a system", {{"system", json::array({image})}}, "system[0]:"},
      {"document", user({{{"type", "document"}}}), "messages[0].content[0]:"},
      {"result without a call", user({{{"type", "tool_result"}, {"tool_use_id", "t"}}}),
       "messages[0].content[0].tool_use_id:"},
      {"result without an id", user({{{"type", "tool_result"}}}), "messages[0].content[0].tool_use_id:"},
      {"call without a name", assistant({{{"type", "tool_use"}, {"id", "t"}, {"input", json::object()}}}),
       "messages[1].content[0].name:"},
      {"call with odd input", assistant({{{"type", "tool_use"}, {"id", "t"}, {"name", "f"}, {"input", 5}}}),
       "messages[1].content[0].input:"},
      {"call without a result at the end",
       assistant({{{"type", "tool_use"}, {"id", "t"}, {"name", "f"}, {"input", json::object()}}}),
       "messages[1]:"},
      {"thinking without thoughts", assistant({{{"type", "thinking"}}}), "messages[1].content[0].thinking:"},
      {"system is a number", {{"system", 5}}, "system:"},
      {"tools are no list", {{"tools", "x"}}, "tools:"},
      {"tool without a name", {{"tools", {{{"input_schema", json::object()}}}}}, "tools[0].name:"},
      {"tool with an odd name", {{"tools", {{{"name", "a b"}}}}}, "tools[0].name:"},
      {"tool with an odd schema",
       {{"tools", {{{"name", "a"}, {"input_schema", 5}}}}},
       "tools[0].input_schema:"},
      {"choice without a type", {{"tool_choice", json::object()}}, "tool_choice.type:"},
      {"odd choice", {{"tool_choice", {{"type", "perhaps"}}}}, "tool_choice.type:"},
      {"forced call", {{"tools", tools()}, {"tool_choice", {{"type", "any"}}}}, "tool_choice:"},
      {"forced tool",
       {{"tools", tools()}, {"tool_choice", {{"type", "tool"}, {"name", "ping"}}}},
       "tool_choice:"},
      {"absent tool",
       {{"tools", tools()}, {"tool_choice", {{"type", "tool"}, {"name", "no"}}}},
       "tool_choice.name:"},
      {"max_tokens", {{"max_tokens", 0}}, "max_tokens:"},
      {"stop_sequences", {{"stop_sequences", {""}}}, "stop_sequences[0]:"},
      {"stop_sequences of numbers", {{"stop_sequences", {5}}}, "stop_sequences[0]:"},
      {"temperature", {{"temperature", -1}}, "temperature:"},
      {"several answers", {{"n", 2}}, "n:"},
      {"odd thinking", {{"thinking", {{"type", "perhaps"}}}}, "thinking.type:"},
      {"stream", {{"stream", "yes"}}, "stream:"},
  };
  for (const Wrong& wrong : wrongs) {
    SCOPED_TRACE(wrong.why);
    const auto got = server.ask(kMessages, request(wrong.more));
    EXPECT_EQ(got->status(), 400);
    const json body = got->body();
    ASSERT_EQ(body.value("type", ""), "error") << got->text().substr(0, 200);
    EXPECT_EQ(body["error"]["type"], "invalid_request_error");
    const std::string message = body["error"]["message"];
    EXPECT_TRUE(message.starts_with(wrong.named)) << message;
  }
  EXPECT_EQ(server.service->active(), 0u);
}

TEST(Messages, tools_of_another_maker_are_left_out) {
  Server server;
  server.says("a");
  json list = tools();
  list.push_back({{"type", "web_search_20250305"}, {"name", "web_search"}, {"max_uses", 5}});
  EXPECT_EQ(prompt_of(server, request({{"tools", list}})), prompt_of(server, request({{"tools", tools()}})));
  EXPECT_EQ(prompt_of(server, request({{"tools", tools()}, {"tool_choice", {{"type", "none"}}}})),
            prompt_of(server, request()));
}

TEST(Messages, with_parallel_calls_off_nothing_follows_the_first_call) {
  Server server;
  for (const bool stream : {false, true}) {
    server.says("<|tool_call>call:ping{}<tool_call|><|tool_call>call:ping{}<tool_call|>and more");
    const auto got = server.ask(
        kMessages, request({{"tools", tools()},
                            {"tool_choice", {{"type", "auto"}, {"disable_parallel_tool_use", true}}},
                            {"stream", stream}}));
    const json message = stream ? assembled_message(got->named_events()) : got->body();
    EXPECT_EQ(message["content"].size(), 1u);
    EXPECT_EQ(message["stop_reason"], "tool_use");
  }
}

}  // namespace
}  // namespace slip::server::api
