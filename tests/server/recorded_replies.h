// Replies as models write them, for every API: calls, thoughts, malformed openers, half characters. Each is replayed
// at every split into rounds, streamed and not.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "server/api_fixture.h"

namespace slip::server::api {

inline json weather_tools() {
  return json::parse(
      R"([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
      "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "zip": {"type": "string"}}}}},
      {"type": "function", "function": {"name": "ping"}}])");
}

/// Replies as models write them, with what must become of them.
struct Recorded {
  const char* name;
  const char* reply;
  const char* content;
  const char* reasoning;
  std::vector<std::pair<const char*, const char*>> calls;  // name and arguments
  const char* finish;
};

inline const std::vector<Recorded>& recorded() {
  static const std::vector<Recorded> all{
      {"text", "hello there", "hello there", "", {}, "stop"},
      {"half characters", "a\xC3\xA9 \xF0\x9F\x98\x80 z", "a\xC3\xA9 \xF0\x9F\x98\x80 z", "", {}, "stop"},
      {"thought", "<|channel>thought\nlet me see\n<channel|>yes", "yes", "let me see", {}, "stop"},
      {"call",
       "<|tool_call>call:get_weather{city:<|\"|>sao paulo<|\"|>,days:3}<tool_call|>",
       "",
       "",
       {{"get_weather", R"({"city":"sao paulo","days":3})"}},
       "tool_calls"},
      {"two calls",
       "<|tool_call>call:get_weather{city:<|\"|>a<|\"|>}<tool_call|><|tool_call>call:ping{}<tool_call|>",
       "",
       "",
       {{"get_weather", R"({"city":"a"})"}, {"ping", "{}"}},
       "tool_calls"},
      {"thought, words, call",
       "<|channel>thought\nhm\n<channel|>i look<|tool_call>call:ping{}<tool_call|>",
       "i look",
       "hm",
       {{"ping", "{}"}},
       "tool_calls"},
      {"number where a string is asked for",
       "<|tool_call>call:get_weather{zip:123,days:<|\"|>4<|\"|>}<tool_call|>",
       "",
       "",
       {{"get_weather", R"({"zip":"123","days":4})"}},
       "tool_calls"},
      {"braces and quotes in a string",
       "<|tool_call>call:get_weather{city:<|\"|>a}\"{b\\<|\"|>}<tool_call|>",
       "",
       "",
       {{"get_weather", R"({"city":"a}\"{b\\"})"}},
       "tool_calls"},
      {"missing end of a call", "<|tool_call>call:ping{}", "", "", {{"ping", "{}"}}, "tool_calls"},
      {"malformed opener", "<|tool_call>:ping(", "<|tool_call>:ping(", "", {}, "stop"},
      {"only a thought",
       "<|channel>thought\nall in here\n<channel|>",
       "all in here",
       "all in here",
       {},
       "stop"},
  };
  return all;
}

/// Calls `tried` once for every place at which a round may end, with rounds of 1, 3 and 8 tokens before it; the script is
/// set each time.
inline void at_every_split(Server& server, const Recorded& reply, const std::function<void()>& tried) {
  const size_t tokens = scripted_model().tokenizer().encode(reply.reply).size() + 1;
  for (size_t cut = 1; cut < tokens; ++cut) {
    for (const size_t width : {size_t{1}, size_t{3}, size_t{8}}) {
      SCOPED_TRACE("cut after " + std::to_string(cut) + ", rounds of " + std::to_string(width));
      std::vector<size_t> steps(cut / width, width);
      if (cut % width != 0) steps.push_back(cut % width);
      steps.push_back(tokens);
      server.says(reply.reply, {.tokens = {}, .steps = std::move(steps)});
      tried();
    }
  }
}

/// Lets so many seconds pass in which the model writes nothing, and expects an event in every stretch of 17.
inline void expect_life(Server& server, const FakeExchange& stream, int seconds) {
  constexpr int kLongest = 17;
  size_t seen = stream.text().size();
  int quiet = 0;
  const auto heard = [&] {
    const size_t now = stream.text().size();
    if (now == seen) return false;
    seen = now;
    quiet = 0;
    return true;
  };
  for (int i = 0; i < seconds; ++i) {
    server.timers.advance(std::chrono::seconds(1));
    ++quiet;
    // Workers need a moment of real time; the clock of the test waits for them where an event is due.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!heard() && quiet >= kLongest) {
      ASSERT_LT(std::chrono::steady_clock::now(), patience) << "no sign of life after " << quiet << " s";
      std::this_thread::yield();
    }
  }
}

}  // namespace slip::server::api
