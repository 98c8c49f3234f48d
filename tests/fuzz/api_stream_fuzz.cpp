// What a model may write, however many tokens a step brings and wherever it is cut: the stream's events put together are
// the message of the whole answer, every event is JSON, and calls come with their id once.
#include "fuzz/target.h"
#include "server/api_fixture.h"

using namespace slip::server::api;

namespace {

Server& server() {
  static Server& kept = *[] {
    testing::GTEST_FLAG(throw_on_failure) = true;
    auto* made = new Server({.workers = 1, .log_requests = false});
    made->replies.go_on();
    return made;
  }();
  return kept;
}

/// A byte of the input as tokens: the words that mean something, then letters, then bytes, half characters among them.
std::vector<int> tokens_of(uint8_t byte) {
  static constexpr const char* kWords[] = {"<|channel>",   "thought\n",  "<channel|>", "<|tool_call>",
                                           "<tool_call|>", "call:ping{", "}",          "<|\"|>",
                                           "city:",        ",",          "call:",      "\n",
                                           "1.5",          "[",          "]",          "<|tool_response>"};
  const auto& tokenizer = scripted_model().tokenizer();
  if (byte < std::size(kWords)) return tokenizer.encode(kWords[byte]);
  if (byte < 0x80 && std::isalpha(byte) != 0)
    return tokenizer.encode(std::string(1, static_cast<char>(byte | 0x20)));
  char piece[8];
  std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
  return {*tokenizer.id_of(piece)};
}

json without_ids(json choices) {
  for (json& choice : choices) {
    for (json& call : choice["calls"]) call.erase("id");
  }
  return choices;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3 || size > 400) return 0;
  ScriptedReplies::Script script;
  for (size_t i = 3; i < size; ++i)
    for (const int id : tokens_of(data[i])) script.tokens.push_back(id);
  script.tokens.push_back(*scripted_model().tokenizer().id_of("<turn|>"));
  for (size_t i = 0; i < script.tokens.size(); ++i) script.steps.push_back(1 + data[i % size] % 8);
  server().replies.set(std::move(script));
  server().replies.go_on();
  json body = chat({{"tools", json::parse(R"([{"function": {"name": "ping", "parameters": {"type": "object",
      "properties": {"city": {"type": "string"}}}}}])")},
                    {"logprobs", true},
                    {"parallel_tool_calls", data[0] % 2 == 0},
                    {"max_tokens", 1 + data[1] + (data[0] & 2) * 200}});
  if (data[2] % 8 == 0) body["stop"] = "ab";
  const auto whole = server().ask("/v1/chat/completions", body);
  body["stream"] = true;
  const auto streamed = server().ask("/v1/chat/completions", body);
  fuzz_check(whole->status() == 200 && streamed->status() == 200);
  const json one = reshaped(whole->body()), other = assembled(streamed->events());
  fuzz_check(without_ids(one["choices"]) == without_ids(other["choices"]));
  for (const json& call : one["choices"][0]["calls"])
    fuzz_check(json::parse(call["arguments"].get<std::string>(), nullptr, false).is_object());
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string head("\x02\xff\x01", 3);
  return {head + "hello",
          head + std::string("\x00\x01why\x02yes", 9),
          head + "\x03\x05\x08\x07oslo\x07\x06\x04",
          head + "\x03\x05\x06\x04\x03\x05\x06\x04",
          std::string("\x03\x05\x08", 3) + "ab\xf0\x9f\x98\x80zz\xc3\xa9",
          head + "\x03\x0a" + "ping(1)\x04"};
}
