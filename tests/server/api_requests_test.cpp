// Bad inputs: each gets its 4xx and an error object that names the field; none crashes, hangs, or is answered anyway.
#include "server/api/chat_request.h"
#include "server/api/thinking.h"
#include "server/api/tool_types.h"
#include "server/api_fixture.h"

namespace slip::server::api {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

void expect_refusal(Server& server, const std::string& path, const std::string& body, int status,
                    const std::string& field = {}) {
  const std::string shown = body.substr(0, 200);
  const auto got = server.send("POST", path, body);
  got->wait();
  EXPECT_EQ(got->status(), status) << path << " " << shown << "\n" << got->text().substr(0, 500);
  const json answer = got->body();
  ASSERT_TRUE(answer.is_object() && answer.contains("error")) << shown;
  EXPECT_TRUE(answer["error"]["message"].is_string()) << shown;
  EXPECT_FALSE(answer["error"]["message"].get<std::string>().empty());
  if (!field.empty()) {
    EXPECT_EQ(answer["error"]["param"], field) << shown << "\n" << answer["error"]["message"];
  }
}

TEST(Requests, templates_see_messages_and_tools_as_they_were_sent) {
  const std::string message = R"({"zeal": 2.0, "role": "user", "content": "a"})";
  const std::string tool = R"({"type": "function", "function": {"strict": true, "name": "f"}})";
  const std::string body = R"({"messages": [)" + message + R"(, {"role": "assistant", "content":
    [{"type": "refusal", "refusal": "no"}]}], "tools": [)" +
                           tool + R"(], "chat_template_kwargs": {"preserve_thinking": true}})";
  const ChatRequest request = read_chat(json::parse(body), {.vocab = 100}, body);
  EXPECT_EQ(request.conversation.turns.at(0).source, message);
  EXPECT_EQ(request.conversation.turns.at(1).source,
            R"({"content":[{"text":"no","type":"text"}],"role":"assistant"})")
      << "what the server put into other words is not as it was sent";
  EXPECT_EQ(request.conversation.tools.at(0).source, tool);
  EXPECT_EQ(request.options.more, R"({"preserve_thinking": true})");
  EXPECT_FALSE(request.options.thinking.has_value());
}

TEST(Requests, bodies_that_are_no_json_are_refused) {
  Server server;
  server.says("a");
  const std::string ok = chat().dump();
  for (const std::string& body : {std::string(),
                                  std::string("{"),
                                  std::string("nonsense"),
                                  std::string("[]"),
                                  std::string("\"x\""),
                                  std::string("null"),
                                  std::string("1"),
                                  ok + "x",
                                  ok + ok,
                                  std::string("{\"a\": NaN}"),
                                  std::string("{\"temperature\": 1e400}"),
                                  std::string("{\"a\": \"\\ud800\"}"),
                                  std::string("{\"a\": \"\xff\xfe\"}"),
                                  std::string("{\"messages\": [], \"messages\": []}"),
                                  std::string(10000, '[') + std::string(10000, ']'),
                                  "{\"a\":" + std::string(10000, '['),
                                  "{\"seed\": " + std::string(1 << 20, '9') + "}",
                                  std::string("{\"a\": \"\x01\"}"),
                                  std::string("{\"a\": 01}"),
                                  std::string("{'a': 1}"),
                                  std::string("{\"a\": tru}"),
                                  std::string("{\"a\" 1}"),
                                  std::string("{\"a\": 1,}"),
                                  std::string(1, '\0')}) {
    for (const char* path : {kChat, kCompletions, "/tokenize", "/detokenize", "/apply-template"})
      expect_refusal(server, path, body, 400);
  }
  const auto marked = server.send("POST", kChat, "\xEF\xBB\xBF" + ok);
  marked->wait();
  EXPECT_EQ(marked->status(), 200) << "a byte order mark is put up with";
}

struct Wrong {
  const char* field;  // of the body
  json value;
  const char* named;  // the path in the error; null: the field
};

TEST(Requests, fields_of_a_wrong_type_or_range_are_named_by_their_path) {
  Server server;
  server.says("a");
  const std::vector<Wrong> common{
      {"model", 5, nullptr},
      {"max_tokens", -1, nullptr},
      {"max_tokens", 0, nullptr},
      {"max_tokens", 1.5, nullptr},
      {"max_tokens", "10", nullptr},
      {"max_tokens", true, nullptr},
      {"max_tokens", json::array(), nullptr},
      {"max_tokens", 1e300, nullptr},
      {"max_completion_tokens", -5, nullptr},
      {"temperature", -1, nullptr},
      {"temperature", 1e9, nullptr},
      {"temperature", "hot", nullptr},
      {"top_p", 0, nullptr},
      {"top_p", 1.1, nullptr},
      {"top_p", -0.5, nullptr},
      {"top_k", -2, nullptr},
      {"top_k", 1.5, nullptr},
      {"min_p", 2, nullptr},
      {"min_p", -1, nullptr},
      {"repetition_penalty", 0, nullptr},
      {"repetition_penalty", 1e9, nullptr},
      {"presence_penalty", 3, nullptr},
      {"frequency_penalty", -3, nullptr},
      {"frequency_penalty", "x", nullptr},
      {"n", 0, nullptr},
      {"n", 1000000, nullptr},
      {"n", -1, nullptr},
      {"n", "2", nullptr},
      {"seed", 1.5, nullptr},
      {"seed", 18446744073709551616.0, nullptr},
      {"seed", "x", nullptr},
      {"stop", "", nullptr},
      {"stop", json::array({""}), "stop[0]"},
      {"stop", json::array({"a", 5}), "stop[1]"},
      {"stop", 5, nullptr},
      {"stop", json(std::vector<std::string>(10000, "x")), nullptr},
      {"stop", std::string(1 << 20, 'x'), nullptr},
      {"logit_bias", json::array(), nullptr},
      {"logit_bias", {{"x", 1}}, nullptr},
      {"logit_bias", {{"-1", 1}}, nullptr},
      {"logit_bias", {{"99999999999", 1}}, nullptr},
      {"logit_bias", {{"512", 1}}, nullptr},
      {"logit_bias", {{"5", 1e30}}, "logit_bias.5"},
      {"logit_bias", {{"5", -1e30}}, "logit_bias.5"},
      {"logit_bias", {{"5", "x"}}, "logit_bias.5"},
      {"logit_bias", {{"5", nullptr}}, "logit_bias.5"},
      {"stream", "yes", nullptr},
      {"stream", 1, nullptr},
      {"stream_options", true, nullptr},
      {"stream_options", {{"include_usage", 1}}, "stream_options.include_usage"},
      {"min_tokens", -1, nullptr},
      {"ignore_eos", 1, nullptr},
      {"stop_token_ids", "x", nullptr},
      {"stop_token_ids", json::array({512}), "stop_token_ids[0]"},
      {"stop_token_ids", json::array({1, -1}), "stop_token_ids[1]"},
      {"draft", "no", nullptr},
      {"cache_salt", 5, nullptr},
      {"prompt_cache_key", 5, nullptr},
      {"user", json::object(), nullptr},
      {"deadline", 0, nullptr},
      {"guided_json", json::object(), nullptr},
      {"guided_regex", "x", nullptr},
  };
  const std::vector<Wrong> of_chat{
      {"messages", nullptr, nullptr},
      {"messages", json::array(), nullptr},
      {"messages", "hi", nullptr},
      {"messages", json::object(), nullptr},
      {"messages", json::array({5}), "messages[0]"},
      {"messages", {{{"content", "x"}}}, "messages[0].role"},
      {"messages", {{{"role", 5}, {"content", "x"}}}, "messages[0].role"},
      {"messages", {{{"role", "wizard"}, {"content", "x"}}}, "messages[0]"},
      {"messages", {{{"role", "user"}}}, "messages[0].content"},
      {"messages", {{{"role", "user"}, {"content", nullptr}}}, "messages[0].content"},
      {"messages", {{{"role", "user"}, {"content", 5}}}, "messages[0].content"},
      {"messages", {{{"role", "user"}, {"content", {5}}}}, "messages[0].content[0]"},
      {"messages", {{{"role", "user"}, {"content", {{{"type", "smell"}}}}}}, "messages[0].content[0]"},
      {"messages", {{{"role", "user"}, {"content", {{{"type", "text"}}}}}}, "messages[0].content[0].text"},
      {"messages",
       {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", 5}}}}}},
       "messages[0].content[0].text"},
      {"messages", {{{"role", "tool"}, {"content", "x"}, {"tool_call_id", "c"}}}, "messages[0]"},
      {"messages",
       {{{"role", "user"}, {"content", "a"}}, {{"role", "user"}, {"content", "b"}, {"tool_calls", {5}}}},
       "messages[1]"},
      {"messages", {{{"role", "assistant"}, {"tool_calls", {5}}}}, "messages[0].tool_calls[0]"},
      {"tools", "x", nullptr},
      {"tools", {5}, "tools[0]"},
      {"tools", {{{"type", "function"}}}, "tools[0]"},
      {"tools", {{{"type", "web_search"}}}, "tools[0].type"},
      {"tools", {{{"function", {{"name", ""}}}}}, "tools[0]"},
      {"tools", {{{"function", {{"name", "a b"}}}}}, "tools[0].function.name"},
      {"tools", {{{"function", {{"name", "a{"}}}}}, "tools[0].function.name"},
      {"tools", {{{"function", {{"name", "a"}, {"parameters", 5}}}}}, "tools[0]"},
      {"tool_choice", "sometimes", nullptr},
      {"tool_choice", 5, nullptr},
      {"tool_choice", "required", nullptr},
      {"tool_choice",
       {{"type", "function"}, {"function", {{"name", "absent"}}}},
       "tool_choice.function.name"},
      {"tool_choice", {{"type", "custom"}}, "tool_choice.type"},
      {"parallel_tool_calls", "x", nullptr},
      {"logprobs", 5, nullptr},
      {"top_logprobs", 21, nullptr},
      {"top_logprobs", -1, nullptr},
      {"top_logprobs", 2, nullptr},
      {"response_format", "json", nullptr},
      {"response_format", {{"type", "yaml"}}, "response_format.type"},
      {"response_format", {{"type", "json_schema"}, {"json_schema", json::object()}}, "response_format.type"},
      {"reasoning_effort", "extreme", nullptr},
      {"reasoning_effort", 5, nullptr},
      {"chat_template_kwargs", "x", nullptr},
      {"chat_template_kwargs", {{"enable_thinking", "perhaps"}}, "chat_template_kwargs.enable_thinking"},
      {"modalities", {"audio"}, nullptr},
      {"functions", json::array(), nullptr},
  };
  const std::vector<Wrong> of_completions{
      {"prompt", nullptr, nullptr},
      {"prompt", json::array(), nullptr},
      {"prompt", 5, nullptr},
      {"prompt", json::object(), nullptr},
      {"prompt", json::array({512}), "prompt[0]"},
      {"prompt", json::array({1, -1}), "prompt[1]"},
      {"prompt", json::array({1, "x"}), "prompt[1]"},
      {"prompt", json::array({"x", 1}), "prompt[1]"},
      {"prompt", json::array({json::array()}), "prompt[0]"},
      {"prompt", json(std::vector<std::string>(1000, "x")), nullptr},
      {"logprobs", 21, nullptr},
      {"logprobs", true, nullptr},
      {"echo", "x", nullptr},
      {"suffix", "x", nullptr},
      {"best_of", 5, nullptr},
      {"add_special_tokens", 1, nullptr},
  };
  const auto try_all = [&](const char* path, json body, const std::vector<Wrong>& wrongs) {
    for (const Wrong& wrong : wrongs) {
      json bad = body;
      bad[wrong.field] = wrong.value;
      expect_refusal(server, path, bad.dump(), 400, wrong.named == nullptr ? wrong.field : wrong.named);
    }
  };
  const json completion{{"prompt", "x"}};
  try_all(kChat, chat(), common);
  try_all(kChat, chat(), of_chat);
  try_all(kCompletions, completion, common);
  try_all(kCompletions, completion, of_completions);
  json least = chat({{"min_tokens", 10}, {"max_tokens", 5}});
  expect_refusal(server, kChat, least.dump(), 400, "min_tokens");
  const json tool{{"type", "function"}, {"function", {{"name", "f"}}}};
  expect_refusal(server, kChat, chat({{"tools", {tool}}, {"tool_choice", "required"}}).dump(), 400,
                 "tool_choice");
  expect_refusal(server, kChat, chat({{"tools", {tool}}, {"tool_choice", tool}}).dump(), 400, "tool_choice");
  EXPECT_EQ(server.service->active(), 0u);
}

TEST(Requests, media_parts_are_refused_by_their_place_and_name) {
  Server server;
  for (const char* type : {"image_url", "image", "input_image", "video", "video_url", "input_audio",
                           "audio_url", "file", "document"}) {
    for (const char* role : {"user", "system", "assistant"}) {
      const json parts = {{{"type", "text"}, {"text", "look"}}, {{"type", type}, {"url", "data:,"}}};
      const json body{{"messages", {{{"role", role}, {"content", parts}}}}};
      expect_refusal(server, kChat, body.dump(), 400, "messages[0].content[1]");
    }
  }
}

TEST(Requests, odd_but_sensible_ones_are_answered) {
  Server server;
  server.says("a");
  const std::vector<json> fine{
      json::object(),
      {{"a_field_nobody_knows", {{"x", 1}}}},
      {{"temperature", 0}},
      {{"temperature", 1e-9}},
      {{"top_k", -1}},
      {{"top_k", 513}},
      {{"max_tokens", 1}},
      {{"max_tokens", 2147483648}},
      {{"max_tokens", 10.0}},
      {{"seed", -1}},
      {{"seed", 18446744073709551615u}},
      {{"stop", json::array()}},
      {{"stop", "\xF0\x9F\x98\x80"}},
      {{"logit_bias", {{"5", -100}, {"6", 100}}}},
      {{"logprobs", true}},
      {{"logprobs", false}, {"top_logprobs", 0}},
      {{"presence_penalty", 2}, {"frequency_penalty", -2}, {"temperature", 0}},
      {{"tools", json::array()}},
      {{"tool_choice", "auto"}},
      {{"response_format", {{"type", "text"}}}},
      {{"metadata", {{"x", "y"}}}, {"store", true}, {"service_tier", "auto"}},
      {{"messages", {{{"role", "system"}, {"content", "be kind"}}}}},
      {{"messages", {{{"role", "developer"}, {"content", "be kind"}}, {{"role", "user"}, {"content", "x"}}}}},
      {{"messages", {{{"role", "user"}, {"content", "x"}}, {{"role", "system"}, {"content", "later"}}}}},
      {{"messages", {{{"role", "user"}, {"content", ""}}}}},
      {{"messages", {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "x"}}}}}}}},
      {{"messages",
        {{{"role", "user"}, {"content", "x"}},
         {{"role", "assistant"}, {"content", {{{"type", "refusal"}, {"refusal", "no"}}}}},
         {{"role", "user"}, {"content", "x"}}}}},
  };
  for (const json& more : fine) {
    const auto got = server.ask(kChat, chat(more));
    EXPECT_EQ(got->status(), 200) << more << "\n" << got->text();
  }
  json nulls = chat();
  for (const char* field :
       {"model", "max_tokens", "temperature", "top_p", "n", "seed", "stop", "logit_bias", "stream",
        "stream_options", "tools", "tool_choice", "response_format", "logprobs", "top_logprobs",
        "reasoning_effort", "user", "parallel_tool_calls", "chat_template_kwargs"})
    nulls[field] = nullptr;
  EXPECT_EQ(server.ask(kChat, nulls)->status(), 200) << "null counts as absent";
}

TEST(Requests, users_3_large_ones_are_read) {
  Server server({}, true, 10'000'000), small({}, true, 1000);
  server.says("a");
  json messages = json::array();
  for (int i = 0; i < 10000; ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", "x"}});
  EXPECT_EQ(server.ask(kChat, chat({{"messages", messages}}))->status(), 200);
  json tools = json::array();
  for (int i = 0; i < 500; ++i) {
    tools.push_back(
        {{"type", "function"},
         {"function",
          {{"name", "f" + std::to_string(i)},
           {"parameters", {{"type", "object"}, {"properties", {{"}<|\"|>", {{"type", "string"}}}}}}}}}});
  }
  EXPECT_EQ(server.ask(kChat, chat({{"tools", tools}}))->status(), 200);
  std::string smiles;
  for (int i = 0; i < 200000; ++i) smiles += "\xF0\x9F\x98\x80";
  EXPECT_EQ(server.ask(kChat, chat({{"messages", {{{"role", "user"}, {"content", smiles}}}}}))->status(),
            200);
  const std::string letters(2'000'000, 'a');
  expect_refusal(small, kCompletions, json{{"prompt", letters}}.dump(), 400);
}

TEST(ToolTypes, values_become_what_the_schema_asks_for_where_nothing_is_lost) {
  const json schema = json::parse(R"({"type": "object", "properties": {
      "s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"},
      "o": {"type": "object", "properties": {"s": {"type": "string"}}}, "a": {"type": "array", "items": {"type": "string"}},
      "u": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "t": {"type": ["string", "null"]}, "g": {"type": "STRING"}}})");
  const auto typed = [&](const char* arguments) { return typed_arguments(arguments, schema); };
  EXPECT_EQ(typed(R"({"s":1,"i":"2","n":"2.5","b":"true"})"), R"({"s":"1","i":2,"n":2.5,"b":true})");
  EXPECT_EQ(typed(R"({"b":"False","s":true,"g":7})"), R"({"b":false,"s":"true","g":"7"})");
  EXPECT_EQ(typed(R"({"o":{"s":1},"a":[1,"x"]})"), R"({"o":{"s":"1"},"a":["1","x"]})");
  EXPECT_EQ(typed(R"({"o":"{\"s\":1}","a":"[1]"})"), R"({"o":{"s":"1"},"a":["1"]})");
  EXPECT_EQ(typed(R"({"u":"5","t":null})"), R"({"u":5,"t":null})");
  EXPECT_EQ(typed(R"({"i":"many","n":"x","b":"perhaps","unknown":1})"),
            R"({"i":"many","n":"x","b":"perhaps","unknown":1})")
      << "what cannot be converted stays";
  EXPECT_EQ(typed_arguments("nonsense", schema), "{}");
  EXPECT_EQ(typed_arguments(R"({"a":1})", json()), R"({"a":1})");
}

TEST(Thinking, the_most_exact_spelling_counts) {
  const auto read = [](const char* text) {
    const json body = json::parse(text);
    return read_thinking(Fields(body));
  };
  EXPECT_FALSE(read("{}").has_value());
  EXPECT_EQ(read(R"({"chat_template_kwargs": {"enable_thinking": false}, "think": true})"), false);
  EXPECT_EQ(read(R"({"thinking": true})"), true);
  EXPECT_EQ(read(R"({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}})"), false);
  EXPECT_EQ(read(R"({"reasoning_effort": "minimal"})"), false);
}

}  // namespace
}  // namespace slip::server::api
