// ollama's API, as far as it is served: what runs here, and a chat, against scripted replies.
#include "server/recorded_replies.h"

namespace slip::server::api {
namespace {

constexpr const char* kChatRoute = "/api/chat";

json request(json more = json::object()) {
  json body{{"model", ""}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  if (more.is_object()) body.update(more);
  return body;
}

std::vector<json> lines(const FakeExchange& stream) {
  std::vector<json> lines;
  std::string rest = stream.text();
  for (size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1))
    lines.push_back(json::parse(rest.substr(0, end)));
  EXPECT_EQ(rest, "");
  return lines;
}

/// A stream put together: the last line with the message of all.
json assembled_lines(const std::vector<json>& lines) {
  json message{{"role", "assistant"}, {"content", ""}, {"thinking", ""}, {"tool_calls", json::array()}};
  for (size_t i = 0; i < lines.size(); ++i) {
    const json& said = lines[i]["message"];
    EXPECT_EQ(said["role"], "assistant");
    EXPECT_EQ(lines[i]["done"], i + 1 == lines.size());
    for (const char* key : {"content", "thinking"})
      message[key] = message[key].get<std::string>() + said.value(key, "");
    for (const json& call : said.value("tool_calls", json::array())) message["tool_calls"].push_back(call);
  }
  json whole = lines.back();
  whole["message"] = message;
  return whole;
}

json heard(const json& answer) {
  json calls = json::array();
  for (const json& call : answer["message"].value("tool_calls", json::array()))
    calls.push_back({{"name", call["function"]["name"]}, {"arguments", call["function"]["arguments"]}});
  return {{"content", answer["message"]["content"]},
          {"reasoning", answer["message"].value("thinking", "")},
          {"calls", calls},
          {"reason", answer["done_reason"]}};
}

TEST(Ollama, users_12_a_recorded_reply_is_the_same_message_at_every_split_streamed_and_not) {
  Server server;
  for (const Recorded& reply : recorded()) {
    SCOPED_TRACE(reply.name);
    server.says(reply.reply);
    json calls = json::array();
    for (const auto& [name, arguments] : reply.calls)
      calls.push_back({{"name", name}, {"arguments", json::parse(arguments)}});
    const json expected{
        {"content", reply.content}, {"reasoning", reply.reasoning}, {"calls", calls}, {"reason", "stop"}};
    const auto whole = server.ask(kChatRoute, request({{"tools", weather_tools()}, {"stream", false}}));
    ASSERT_EQ(whole->status(), 200) << whole->text().substr(0, 300);
    EXPECT_FALSE(whole->streams());
    EXPECT_EQ(heard(whole->body()), expected);
    at_every_split(server, reply, [&] {
      const auto stream = server.ask(kChatRoute, request({{"tools", weather_tools()}}));
      ASSERT_EQ(heard(assembled_lines(lines(*stream))), expected);
    });
  }
}

TEST(Ollama, a_chat_streams_lines_unless_told_not_to_and_ends_with_counts_and_durations) {
  Server server;
  server.says("hello");
  const auto stream = server.ask(kChatRoute, request());
  EXPECT_EQ(stream->header("Content-Type"), "application/x-ndjson");
  const json last = lines(*stream).back();
  EXPECT_EQ(last["done_reason"], "stop");
  EXPECT_EQ(last["eval_count"], 5);
  EXPECT_EQ(last["prompt_eval_count"].get<size_t>(), server.replies.last_prompt.size());
  for (const char* name : {"total_duration", "load_duration", "prompt_eval_duration", "eval_duration"})
    EXPECT_TRUE(last[name].is_number_integer()) << name;
  EXPECT_EQ(last["created_at"].get<std::string>().size(), 27u);
  const json cut =
      server.ask(kChatRoute, request({{"stream", false}, {"options", {{"num_predict", 2}}}}))->body();
  EXPECT_EQ(cut["done_reason"], "length");
  EXPECT_EQ(cut["message"]["content"], "he");
  server.ask(
      kChatRoute,
      request({{"options", {{"num_predict", -1}, {"temperature", 0.5}, {"seed", 3}, {"num_ctx", 9}}}}));
  EXPECT_EQ(server.replies.last_sampling.seed, 3u);
  EXPECT_FLOAT_EQ(server.replies.last_sampling.temperature, 0.5f);
}

TEST(Ollama, results_find_their_calls_without_ids) {
  Server server({}, true, 4096);
  server.says("a");
  const json messages = json::parse(R"([
      {"role": "user", "content": "x"},
      {"role": "assistant", "content": "", "thinking": "deep water",
       "tool_calls": [{"function": {"name": "ping", "arguments": {}}},
                      {"function": {"name": "get_weather", "arguments": {"city": "rome"}}}]},
      {"role": "tool", "tool_name": "get_weather", "content": "warm"},
      {"role": "tool", "content": "pong", "images": ["AA"]}])");
  const auto got = server.ask(kChatRoute, request({{"messages", messages}, {"tools", weather_tools()}}));
  ASSERT_EQ(got->status(), 200) << got->text();
  const std::string prompt =
      scripted_model().tokenizer().decode(server.replies.last_prompt, {.skip_specials = false});
  for (const char* part : {"deep water", "call:get_weather{city:", "response:get_weather", "warm",
                           "response:ping", "pong", "[image: this server cannot see]"})
    EXPECT_NE(prompt.find(part), std::string::npos) << part << " in " << prompt;
}

TEST(Ollama, says_what_runs_here) {
  ServiceOptions options;
  options.names.served_names = {"my-model"};
  Server server(options);
  server.says("a");
  EXPECT_TRUE(server.send("GET", "/api/version")->body()["version"].is_string());
  const json model = server.send("GET", "/api/tags")->body()["models"][0];
  EXPECT_EQ(model["name"], "my-model");
  EXPECT_GT(model["size"], 0);
  EXPECT_EQ(model["details"]["family"], "gemma4");
  const json shown = server.post("/api/show", {{"model", "my-model:latest"}})->body();
  EXPECT_EQ(shown["model_info"]["gemma4.context_length"], 512);
  EXPECT_EQ(shown["capabilities"], (json{"completion", "tools", "thinking"}));
  EXPECT_EQ(server.post("/api/show", {{"name", "other"}})->status(), 404);
  EXPECT_EQ(server.ask(kChatRoute, request({{"model", "my-model:latest"}}))->status(), 200);
  EXPECT_EQ(server.ask(kChatRoute, request({{"model", "other"}}))->status(), 404);
}

TEST(Ollama, who_asks_nothing_is_told_that_the_model_is_loaded) {
  Server server;
  for (const json& messages : {json(), json::array()}) {
    const json answer = server.ask(kChatRoute, request({{"messages", messages}}))->body();
    EXPECT_EQ(answer["done_reason"], "load");
    EXPECT_EQ(answer["done"], true);
  }
}

TEST(Ollama, a_failure_in_mid_stream_is_a_line_with_an_error) {
  Server server;
  server.says("hello", {.tokens = {}, .fail_at = 2});
  EXPECT_TRUE(lines(*server.ask(kChatRoute, request())).back()["error"].is_string());
}

TEST(Ollama, what_is_wrong_is_refused_in_its_shape) {
  Server server;
  server.says("a");
  const json call{{"role", "tool"}, {"content", "x"}};
  for (const json& more :
       std::vector<json>{{{"messages", "hi"}},
                         {{"messages", {5}}},
                         {{"messages", {{{"content", "x"}}}}},
                         {{"messages", {{{"role", "wizard"}, {"content", "x"}}}}},
                         {{"messages", {{{"role", "user"}, {"content", "x"}, {"images", {"AA"}}}}}},
                         {{"messages", {call}}},
                         {{"messages", {{{"role", "assistant"}, {"tool_calls", {5}}}}}},
                         {{"tools", 5}},
                         {{"tools", {{{"function", {{"name", "a b"}}}}}}},
                         {{"format", json::object()}},
                         {{"format", 5}},
                         {{"options", 5}},
                         {{"options", {{"temperature", -1}}}},
                         {{"options", {{"num_predict", 0}}}},
                         {{"options", {{"num_predict", "x"}}}},
                         {{"think", "perhaps"}},
                         {{"stream", 5}}}) {
    const auto got = server.ask(kChatRoute, request(more));
    EXPECT_EQ(got->status(), 400) << more;
    EXPECT_TRUE(got->body()["error"].is_string()) << got->text().substr(0, 200);
  }
}

}  // namespace
}  // namespace slip::server::api
