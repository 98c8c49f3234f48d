// Bodies of every route that takes one: each is answered, or refused with a 4xx and an error object; never a 500, never
// an answer that is no JSON, never one that does not come.
#include "fuzz/target.h"
#include "server/api_fixture.h"

using namespace slip::server::api;

namespace {

constexpr const char* kRoutes[] = {
    "/v1/chat/completions", "/v1/completions",           "/tokenize",     "/detokenize", "/apply-template",
    "/v1/messages",         "/v1/messages/count_tokens", "/v1/responses", "/api/chat",   "/api/show",
    "/api/generate"};

Server& server() {
  static Server& kept = *[] {
    testing::GTEST_FLAG(throw_on_failure) = true;
    auto* made = new Server({.workers = 1, .log_requests = false});
    made->says("a");
    made->replies.go_on();
    return made;
  }();
  return kept;
}

std::string named(const char* route, const json& body) {
  for (size_t i = 0; i < std::size(kRoutes); ++i) {
    if (std::string_view(kRoutes[i]) == route) return static_cast<char>('a' + i) + body.dump();
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const char* route = kRoutes[data[0] % 32 % std::size(kRoutes)];
  const auto got = server().send("POST", route, {reinterpret_cast<const char*>(data) + 1, size - 1});
  got->wait();
  const int status = got->status();
  fuzz_check(status == 200 || (status >= 400 && status < 500) || status == 501 || status == 503);
  if (got->streams()) return 0;
  const json body = got->body();
  fuzz_check(body.is_object());
  // A response has an error that is null.
  fuzz_check((status >= 400) == (body.contains("error") && !body["error"].is_null()));
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const json tools = json::parse(R"([{"type": "function", "function": {"name": "f", "parameters":
      {"type": "object", "properties": {"a": {"type": "string"}}}}}])");
  const json rounds =
      json::parse(R"([{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text",
      "text": "x"}]}, {"role": "assistant", "content": null, "reasoning": "r", "tool_calls": [{"id": "c", "type":
      "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}, {"role": "tool", "tool_call_id": "c",
      "content": "y"}])");
  return {
      named("/v1/chat/completions", chat({{"max_tokens", 5}, {"temperature", 0.5}, {"stream", true}})),
      named("/v1/chat/completions",
            {{"messages", rounds}, {"tools", tools}, {"tool_choice", "auto"}, {"seed", 7}, {"n", 2}}),
      named("/v1/chat/completions", chat({{"stop", {"a", "b"}},
                                          {"logit_bias", {{"5", -1}}},
                                          {"logprobs", true},
                                          {"top_logprobs", 3},
                                          {"chat_template_kwargs", {{"enable_thinking", true}}},
                                          {"response_format", {{"type", "json_object"}}}})),
      named("/v1/completions", {{"prompt", {"a", "<|turn>"}}, {"echo", true}, {"logprobs", 2}}),
      named("/v1/completions", {{"prompt", {1, 2, 3}}, {"max_tokens", 0}, {"stop_token_ids", {5}}}),
      named("/tokenize", {{"content", "a b"}, {"add_special", true}, {"with_pieces", true}}),
      named("/detokenize", {{"tokens", {300, 301, 4}}}),
      named("/apply-template", {{"messages", rounds}, {"tools", tools}, {"add_generation_prompt", false}}),
      named("/v1/messages",
            {{"model", "claude-x"}, {"max_tokens", 5}, {"system", "s"}, {"messages", chat()["messages"]}}),
      named("/v1/responses", {{"input", "x"}, {"stream", true}, {"max_output_tokens", 5}}),
      named("/api/chat", {{"model", ""}, {"messages", chat()["messages"]}, {"stream", false}})};
}
