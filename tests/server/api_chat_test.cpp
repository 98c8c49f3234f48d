// Chat: the same message, streamed and whole, however the model's tokens come.
#include <set>

#include "server/recorded_replies.h"

namespace slip::server::api {
namespace {

constexpr const char* kChat = "/v1/chat/completions";

void expect_message(const json& message, const Recorded& expected) {
  EXPECT_EQ(message["content"], expected.content);
  EXPECT_EQ(message["reasoning_content"], expected.reasoning);
  EXPECT_EQ(message["reasoning"], expected.reasoning) << "both names carry it";
  EXPECT_EQ(message["finish_reason"], expected.finish);
  ASSERT_EQ(message["calls"].size(), expected.calls.size());
  for (size_t i = 0; i < expected.calls.size(); ++i) {
    EXPECT_EQ(message["calls"][i]["name"], expected.calls[i].first);
    EXPECT_EQ(message["calls"][i]["arguments"], expected.calls[i].second);
  }
}

/// Ids of calls are fresh in every answer.
json without_ids(json answer) {
  for (json& choice : answer["choices"]) {
    for (json& call : choice["calls"]) call.erase("id");
  }
  return answer;
}

TEST(Chat, users_12_a_recorded_reply_is_the_same_message_at_every_split_streamed_and_not) {
  Server server;
  for (const Recorded& expected : recorded()) {
    SCOPED_TRACE(expected.name);
    server.says(expected.reply);
    const size_t tokens = scripted_model().tokenizer().encode(expected.reply).size() + 1;
    json body = chat({{"tools", weather_tools()}});
    const auto whole = server.ask(kChat, body);
    ASSERT_EQ(whole->status(), 200) << whole->text();
    const json message = reshaped(whole->body());
    expect_message(message["choices"][0], expected);
    EXPECT_EQ(message["usage"]["completion_tokens"], tokens - 1) << "the stop id does not count";

    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    at_every_split(server, expected, [&] {
      const auto stream = server.ask(kChat, body);
      ASSERT_EQ(without_ids(assembled(stream->events())), without_ids(message));
    });
  }
}

TEST(Chat, a_stream_has_the_parts_that_clients_expect) {
  Server server;
  server.says("hi there");
  const auto stream =
      server.ask(kChat, chat({{"stream", true}, {"stream_options", {{"include_usage", true}}}}));
  EXPECT_TRUE(stream->streams());
  EXPECT_EQ(stream->header("Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(stream->header("Cache-Control"), "no-cache");
  EXPECT_EQ(stream->header("X-Accel-Buffering"), "no");
  const auto events = stream->events();
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.back(), "[DONE]");
  const json& first = events.front();
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_TRUE(first["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_TRUE(first["created"].is_number_integer());
  EXPECT_TRUE(first["usage"].is_null());
  const json& usage = events[events.size() - 2];
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 8);
  EXPECT_EQ(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(usage["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
  for (const json& event : events) {
    if (event.is_object()) {
      EXPECT_EQ(event["id"], first["id"]);
    }
  }
  const auto plain = server.ask(kChat, chat({{"stream", true}}));
  EXPECT_EQ(plain->text().find("\"usage\""), std::string::npos) << "only who asks gets a usage chunk";
}

TEST(Chat, a_call_that_max_tokens_cuts_is_dropped_at_every_place) {
  Server server;
  const std::string reply = "ok<|tool_call>call:get_weather{city:<|\"|>rome<|\"|>}<tool_call|>";
  const size_t tokens = scripted_model().tokenizer().encode(reply).size();
  // With its brace the call is complete, and only <tool_call|> is missing.
  for (size_t most = 3; most < tokens - 1; ++most) {
    server.says(reply);
    for (const bool stream : {false, true}) {
      json body = chat({{"tools", weather_tools()}, {"max_tokens", most}, {"stream", stream}});
      const auto got = server.ask(kChat, body);
      const json message = (stream ? assembled(got->events()) : reshaped(got->body()))["choices"][0];
      EXPECT_EQ(message["content"], "ok") << "cut after " << most;
      // Where only the mark behind it is missing, the call is whole.
      EXPECT_EQ(message["calls"].size(), most + 1 < tokens ? 0u : 1u) << "cut after " << most;
      EXPECT_EQ(message["finish_reason"], "length");
      EXPECT_EQ(got->text().find("tool_call>"), std::string::npos);
    }
  }
}

TEST(Chat, with_parallel_calls_off_nothing_follows_the_first_call) {
  Server server;
  const std::string reply = "<|tool_call>call:ping{}<tool_call|><|tool_call>call:ping{}<tool_call|>and more";
  for (const bool stream : {false, true}) {
    server.says(reply, {.tokens = {}, .steps = {8, 8, 8}});
    const auto got = server.ask(
        kChat, chat({{"tools", weather_tools()}, {"parallel_tool_calls", false}, {"stream", stream}}));
    const json message = (stream ? assembled(got->events()) : reshaped(got->body()))["choices"][0];
    EXPECT_EQ(message["calls"].size(), 1u);
    EXPECT_EQ(message["content"], "");
    EXPECT_EQ(message["finish_reason"], "tool_calls");
  }
}

TEST(Chat, users_7_max_tokens_is_clamped_and_a_long_prompt_is_refused_with_exact_numbers) {
  Server server({}, true, 64);
  server.says("hello");
  const auto prompt = [&](const json& body) {
    return server.ask("/tokenize", {{"messages", body["messages"]}})->body()["count"].get<int>();
  };
  json body = chat({{"max_tokens", 1000000}});
  const int tokens = prompt(body);
  EXPECT_EQ(server.ask(kChat, body)->status(), 200);
  EXPECT_EQ(server.replies.last_max_tokens, 64 - tokens);
  EXPECT_EQ(server.ask(kChat, chat())->status(), 200);
  EXPECT_EQ(server.replies.last_max_tokens, 64 - tokens) << "without max_tokens: the room left";
  EXPECT_EQ(server.ask(kChat, chat({{"max_completion_tokens", 5}, {"max_tokens", 9}}))->status(), 200);
  EXPECT_EQ(server.replies.last_max_tokens, 5) << "the newer name counts";
  // One token less than the context is the longest prompt: there must be room for one token.
  body["messages"][0]["content"] = std::string(static_cast<size_t>(2 + 63 - tokens), 'x');
  ASSERT_EQ(prompt(body), 63);
  EXPECT_EQ(server.ask(kChat, body)->status(), 200);
  body["messages"][0]["content"] = std::string(static_cast<size_t>(2 + 64 - tokens), 'x');
  const auto refused = server.ask(kChat, body);
  EXPECT_EQ(refused->status(), 400);
  EXPECT_EQ(refused->body()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(refused->body()["error"]["message"], "prompt is too long: 64 tokens > 63 maximum");
}

TEST(Chat, users_7_the_room_is_that_of_the_caches_where_they_are_smaller_than_the_context) {
  Server server;
  server.replies.longest_size = 40;
  server.says("hello");
  const int tokens = server.ask("/tokenize", {{"messages", chat()["messages"]}})->body()["count"].get<int>();
  EXPECT_EQ(server.ask(kChat, chat({{"max_tokens", 500}}))->status(), 200);
  EXPECT_EQ(server.replies.last_max_tokens, 40 - tokens);
  const auto refused =
      server.ask(kChat, chat({{"messages", {{{"role", "user"}, {"content", std::string(60, 'x')}}}}}));
  EXPECT_EQ(refused->status(), 400);
  EXPECT_NE(refused->body()["error"]["message"].get<std::string>().find("tokens > 39 maximum"),
            std::string::npos);
}

TEST(Chat, the_end_of_the_room_is_a_length) {
  Server server;
  server.says("hello world");
  const auto got = server.ask(kChat, chat({{"max_tokens", 4}}));
  EXPECT_EQ(got->body()["choices"][0]["message"]["content"], "hell");
  EXPECT_EQ(got->body()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(got->body()["usage"]["completion_tokens"], 4);
}

TEST(Chat, stop_strings_end_the_text_before_them) {
  Server server;
  for (const bool stream : {false, true}) {
    server.says("one two three");
    const auto got = server.ask(kChat, chat({{"stop", {"two", "xx"}}, {"stream", stream}}));
    const json message = (stream ? assembled(got->events()) : reshaped(got->body()))["choices"][0];
    EXPECT_EQ(message["content"], "one ");
    EXPECT_EQ(message["finish_reason"], "stop");
  }
}

TEST(Chat, n_replies_come_with_a_choice_each_and_one_prompt_in_the_usage) {
  Server server;
  server.says("abc");
  for (const bool stream : {false, true}) {
    const auto got = server.ask(
        kChat,
        chat({{"n", 3}, {"seed", 7}, {"stream", stream}, {"stream_options", {{"include_usage", true}}}}));
    const json all = stream ? assembled(got->events()) : reshaped(got->body());
    ASSERT_EQ(all["choices"].size(), 3u);
    for (const json& choice : all["choices"]) EXPECT_EQ(choice["content"], "abc");
    EXPECT_EQ(all["usage"]["completion_tokens"], 9);
    EXPECT_EQ(all["usage"]["prompt_tokens"].get<size_t>(), server.replies.last_prompt.size());
    EXPECT_EQ(server.replies.last_sampling.seed, 9u) << "choice k draws with seed + k";
  }
}

TEST(Chat, the_seed_in_use_is_reported) {
  Server server;
  server.says("a");
  EXPECT_EQ(server.ask(kChat, chat({{"seed", 42}}))->body()["seed"], 42);
  EXPECT_EQ(server.ask(kChat, chat({{"seed", -1}}))->body()["seed"], -1);
  EXPECT_EQ(server.ask(kChat, chat({{"seed", UINT64_MAX}}))->body()["seed"], UINT64_MAX);
  const auto fresh = server.ask(kChat, chat({{"n", 2}}));
  EXPECT_EQ(fresh->body()["seed"].get<uint64_t>() + 1, server.replies.last_sampling.seed);
}

TEST(Chat, logprobs_have_a_score_for_every_token_of_the_text) {
  Server server;
  for (const bool stream : {false, true}) {
    server.says("<|channel>thought\nx\n<channel|>a\xC3\xA9");
    const auto got = server.ask(kChat, chat({{"logprobs", true}, {"top_logprobs", 2}, {"stream", stream}}));
    const json message = (stream ? assembled(got->events()) : reshaped(got->body()))["choices"][0];
    ASSERT_EQ(message["scores"].size(), 3u) << message;
    std::string bytes;
    for (const json& score : message["scores"]) {
      for (const json& byte : score["bytes"]) bytes += static_cast<char>(byte.get<int>());
      EXPECT_FLOAT_EQ(score["logprob"].get<float>(), -0.25f);
      EXPECT_EQ(score["top_logprobs"].size(), 2u);
    }
    EXPECT_EQ(bytes, "a\xC3\xA9") << "the scores' bytes are the text's";
    EXPECT_EQ(message["scores"][0]["token"], "a");
    EXPECT_EQ(message["scores"][1]["token"], "bytes:\\xc3");
  }
  const auto without = server.ask(kChat, chat());
  EXPECT_TRUE(without->body()["choices"][0]["logprobs"].is_null());
}

TEST(Chat, timings_say_what_it_cost) {
  Server server;
  server.says("abc");
  const json timings = server.ask(kChat, chat())->body()["timings"];
  for (const char* name : {"queue_ms", "prompt_ms", "predicted_ms", "tokens_per_pass", "acceptance"})
    EXPECT_TRUE(timings[name].is_number()) << name;
  EXPECT_EQ(timings["predicted_n"], 3);
}

TEST(Chat, json_object_is_answered_with_a_warning_and_a_line_of_log) {
  Server server;
  server.says("abc");
  const auto got = server.ask(kChat, chat({{"response_format", {{"type", "json_object"}}}}));
  EXPECT_EQ(got->status(), 200);
  EXPECT_EQ(got->body()["warnings"].size(), 1u);
  server.settle();
  int warned = 0;
  for (const std::string& line : server.log()) warned += line.find("warning") != std::string::npos ? 1 : 0;
  EXPECT_EQ(warned, 1);
}

TEST(Chat, users_22_every_spelling_of_thinking_gives_the_prompt_of_one_or_the_other) {
  Server server;
  const auto prompt = [&](const json& more) {
    return server.ask("/apply-template", chat(more))->body()["prompt"].get<std::string>();
  };
  const std::string off = prompt({}), on = prompt({{"enable_thinking", true}});
  ASSERT_NE(off, on);
  for (const char* effort : {"low", "medium", "high"}) {
    EXPECT_EQ(prompt({{"reasoning_effort", effort}}), on);
    EXPECT_EQ(prompt({{"output_config", {{"effort", effort}}}}), on);
    EXPECT_EQ(prompt({{"reasoning", {{"effort", effort}}}}), on);
    EXPECT_EQ(prompt({{"think", effort}}), on);
  }
  for (const char* type : {"enabled", "adaptive"}) EXPECT_EQ(prompt({{"thinking", {{"type", type}}}}), on);
  EXPECT_EQ(prompt({{"think", true}}), on);
  EXPECT_EQ(prompt({{"chat_template_kwargs", {{"enable_thinking", true}}}}), on);
  EXPECT_EQ(prompt({{"reasoning_effort", "none"}}), off);
  EXPECT_EQ(prompt({{"think", false}}), off);
  EXPECT_EQ(prompt({{"thinking", {{"type", "disabled"}}}}), off);
  EXPECT_EQ(prompt({{"chat_template_kwargs", {{"enable_thinking", false}}}, {"reasoning_effort", "high"}}),
            off);
}

TEST(Chat, users_22_an_answer_that_ends_by_itself_is_not_empty) {
  Server server;
  server.says("a");
  server.ask(kChat, chat());
  EXPECT_EQ(server.replies.last_min_tokens, 1) << "the first token cannot end the reply";
}

TEST(Chat, users_22_where_the_model_said_nothing_at_all_the_answer_is_a_line_break) {
  Server server;
  for (const char* reply : {"<|channel>", "<channel|>", "<|channel>thought\n\n<channel|>"}) {
    for (const bool stream : {false, true}) {
      server.says(reply);
      const auto got = server.ask(kChat, chat({{"stream", stream}}));
      const json message = (stream ? assembled(got->events()) : reshaped(got->body()))["choices"][0];
      EXPECT_EQ(message["content"], "\n") << reply;
      EXPECT_EQ(message["finish_reason"], "stop");
    }
  }
}

TEST(Chat, users_19_reasoning_is_accepted_back_under_both_names) {
  Server server;
  const auto prompt = [&](const char* name) {
    const json messages = {
        {{"role", "user"}, {"content", "x"}},
        {{"role", "assistant"},
         {"content", ""},
         {name, "deep thoughts"},
         {"tool_calls",
          {{{"id", "c1"}, {"type", "function"}, {"function", {{"name", "ping"}, {"arguments", ""}}}}}}},
        {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "pong"}}};
    const auto got = server.ask("/apply-template", {{"messages", messages}, {"tools", weather_tools()}});
    EXPECT_EQ(got->status(), 200) << got->text();
    return got->body()["prompt"].get<std::string>();
  };
  EXPECT_NE(prompt("reasoning").find("deep thoughts"), std::string::npos);
  EXPECT_EQ(prompt("reasoning"), prompt("reasoning_content"));
  EXPECT_NE(prompt("reasoning").find("call:ping{}"), std::string::npos) << "arguments \"\" count as {}";
}

TEST(Chat, continue_final_message_leaves_the_last_answer_open) {
  Server server;
  const json messages = {{{"role", "user"}, {"content", "x"}},
                         {{"role", "assistant"}, {"content", "so far"}}};
  const auto prompt = [&](const json& more) {
    json body{{"messages", messages}};
    body.update(more);
    return server.ask("/apply-template", body)->body()["prompt"].get<std::string>();
  };
  EXPECT_TRUE(prompt({{"continue_final_message", true}}).ends_with("so far"));
  EXPECT_FALSE(prompt(json::object()).ends_with("so far"));
  const auto refused = server.ask("/apply-template", chat({{"continue_final_message", true}}));
  EXPECT_EQ(refused->status(), 400);
}

TEST(Chat, control_tokens_in_messages_stay_text) {
  Server server;
  const json body = {{"messages", {{{"role", "user"}, {"content", "<|turn>model<turn|><bos>"}}}}};
  const auto tokens = server.ask("/tokenize", body)->body()["tokens"].get<std::vector<int>>();
  const int turn = *scripted_model().tokenizer().id_of("<|turn>");
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), turn), 2) << "the user's turn and the model's";
}

TEST(Chat, media_in_tool_results_become_a_word) {
  Server server;
  const json messages = {
      {{"role", "user"}, {"content", "x"}},
      {{"role", "assistant"},
       {"tool_calls", {{{"id", "c1"}, {"function", {{"name", "ping"}, {"arguments", "{}"}}}}}}},
      {{"role", "tool"},
       {"tool_call_id", "c1"},
       {"content", {{{"type", "image_url"}, {"image_url", {{"url", "data:image/png;base64,AA"}}}}}}}};
  const auto got = server.ask("/apply-template", {{"messages", messages}});
  ASSERT_EQ(got->status(), 200) << got->text();
  EXPECT_NE(got->body()["prompt"].get<std::string>().find("[image: this server cannot see]"),
            std::string::npos);
}

/// An agent's conversation: a system message in the middle, a chain of calls with thoughts, more questions.
json agent_messages() {
  json messages =
      json::parse(R"([{"role": "system", "content": "be brief"}, {"role": "user", "content": "do it"},
      {"role": "system", "content": "agents and skills"}])");
  for (int round = 0; round < 3; ++round) {
    const std::string id = "c" + std::to_string(round);
    messages.push_back(
        {{"role", "assistant"},
         {"content", round == 1 ? json("i go on") : json()},
         {"reasoning_content", "thought " + id},
         {"tool_calls",
          {{{"id", id},
            {"type", "function"},
            {"function", {{"name", "get_weather"}, {"arguments", R"({"city": "a", "days": 2})"}}}}}}});
    messages.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", "result " + id}});
  }
  return messages;
}

std::vector<int> prompt_tokens(Server& server, const json& messages, const json& more) {
  json body{{"messages", messages}, {"tools", weather_tools()}};
  body.update(more);
  const auto got = server.ask("/tokenize", body);
  EXPECT_EQ(got->status(), 200) << got->text();
  return got->body()["tokens"].get<std::vector<int>>();
}

TEST(Chat, users_4_each_round_of_a_tool_chain_begins_with_the_tokens_of_the_round_before) {
  Server server;
  const json messages = agent_messages();
  for (const bool thinking : {false, true}) {
    std::vector<int> before;
    for (size_t count = 3; count <= messages.size(); count += 2) {
      const json so_far(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
      const auto whole = prompt_tokens(server, so_far, {{"reasoning_effort", thinking ? "high" : "none"}});
      EXPECT_GE(whole.size(), before.size());
      EXPECT_TRUE(std::equal(before.begin(), before.end(), whole.begin()))
          << "round with " << count << " messages rewrites history";
      before =
          prompt_tokens(server, so_far,
                        {{"reasoning_effort", thinking ? "high" : "none"}, {"add_generation_prompt", false}});
    }
  }
  const std::string prompt =
      server.ask("/apply-template", {{"messages", messages}, {"tools", weather_tools()}})->body()["prompt"];
  EXPECT_LT(prompt.find("do it"), prompt.find("agents and skills")) << "in its place";
  EXPECT_LT(prompt.find("agents and skills"), prompt.find("result c0"));
}

TEST(Chat, users_6_marks_for_caches_and_unknown_fields_change_no_token) {
  Server server;
  json marked = agent_messages();
  for (json& message : marked) {
    if (message["content"].is_string())
      message["content"] = {{{"type", "text"}, {"text", message["content"]}}};
  }
  const auto plain = prompt_tokens(server, marked, json::object());
  for (json& message : marked) {
    for (json& part : message["content"]) part["cache_control"] = {{"type", "ephemeral"}};
    message["cache_control"] = {{"type", "ephemeral"}};
    message["id"] = "msg_1";
  }
  const json more{
      {"metadata", {{"user_id", "{\"device\": 1}"}}},
      {"context_management", {{"edits", {{{"type", "clear_thinking_20251015"}, {"keep", "all"}}}}}},
      {"store", false},
      {"prompt_cache_key", "thread"},
      {"safety_identifier", "x"},
      {"service_tier", "auto"},
      {"verbosity", "low"}};
  EXPECT_EQ(prompt_tokens(server, marked, more), plain);
}

TEST(Chat, users_18_a_call_has_index_id_type_and_name_in_its_first_delta_and_nowhere_else) {
  Server server;
  server.says(
      "<|tool_call>call:get_weather{city:<|\"|>a<|\"|>}<tool_call|><|tool_call>call:ping{}<tool_call|>");
  const auto stream = server.ask(kChat, chat({{"stream", true}, {"tools", weather_tools()}}));
  std::map<int, std::string> arguments;
  std::set<std::string> ids;
  for (const json& event : stream->events()) {
    if (!event.is_object() || event["choices"].empty()) continue;
    for (const json& call : event["choices"][0]["delta"].value("tool_calls", json::array())) {
      const int index = call.at("index");
      if (!arguments.contains(index)) {
        EXPECT_EQ(call.at("type"), "function");
        EXPECT_EQ(call.at("function").at("name"), index == 0 ? "get_weather" : "ping");
        EXPECT_TRUE(ids.insert(call.at("id").get<std::string>()).second) << "ids are not given twice";
        EXPECT_NE(call["id"], "");
      } else {
        EXPECT_FALSE(call.contains("id") || call.contains("type") || call["function"].contains("name"));
      }
      arguments[index] += call["function"].value("arguments", "");
    }
  }
  EXPECT_EQ(arguments, (std::map<int, std::string>{{0, R"({"city":"a"})"}, {1, "{}"}}));
}

TEST(Chat, users_26_usage_counts_cached_tokens_and_timings_count_guesses) {
  Server server;
  server.says("abc");
  const json body = server.ask(kChat, chat())->body();
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  for (const char* field :
       {"draft_n", "draft_n_accepted", "acceptance", "queue_ms", "prompt_ms", "tokens_per_pass"})
    EXPECT_TRUE(body["timings"].contains(field)) << field;
}

TEST(Chat, tool_choice_none_takes_the_tools_away) {
  Server server;
  const auto prompt = [&](const json& more) {
    return server.ask("/apply-template", chat(more))->body()["prompt"].get<std::string>();
  };
  EXPECT_EQ(prompt({{"tools", weather_tools()}, {"tool_choice", "none"}}), prompt({}));
  EXPECT_NE(prompt({{"tools", weather_tools()}, {"tool_choice", "auto"}}), prompt({}));
}

}  // namespace
}  // namespace slip::server::api
