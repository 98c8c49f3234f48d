// scripted_server: a server whose model says what its clients tell it to, for tests with real clients: SDKs and agents.
//
// The newest message that holds SAY{...}END decides. What stands between is the reply, control tokens spelled out.
// SAY{first}THEN{second}END says the second one once a tool has answered the first. In front of the reply may stand
// "slow " (20 ms a step), "wait SECONDS " (for the prompt) and "fail N " (an error at token N). Without SAY the reply is
// "ok". Steps bring 1 to 8 tokens.
// Prints its port, serves until its standard input ends.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>

#include "server/api_fixture.h"
#include "server/http/server.h"

namespace slip::server::api {
namespace {

using Script = ScriptedReplies::Script;

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; at += part.size()) ++count;
  return count;
}

/// The part of the script that is due; the script of a plain reply without one.
std::string reply_to(const std::string& prompt) {
  const size_t begin = prompt.rfind("SAY{");
  const size_t end = begin == std::string::npos ? begin : prompt.find("}END", begin);
  if (end == std::string::npos) return "ok";
  std::string rest = prompt.substr(begin + 4, end - begin - 4);
  for (size_t round = count_of(std::string_view(prompt).substr(end), "<|tool_response>"); round > 0;
       --round) {
    const size_t then = rest.find("}THEN{");
    if (then == std::string::npos) return "ok";
    rest.erase(0, then + 6);
  }
  return rest.substr(0, rest.find("}THEN{"));
}

/// Takes "word " or "word NUMBER " off the front.
std::optional<double> take(std::string& text, const std::string& word, bool number) {
  if (!text.starts_with(word + " ")) return std::nullopt;
  text.erase(0, word.size() + 1);
  if (!number) return 1;
  size_t used = 0;
  const double value = std::stod(text, &used);
  text.erase(0, used + 1);
  return value;
}

Script script_for(const engine::Request& request) {
  const text::Tokenizer& tokenizer = scripted_model().tokenizer();
  std::string reply = reply_to(tokenizer.decode(request.prompt));
  Script script;
  for (;;) {
    if (take(reply, "slow", false)) {
      script.step_time = std::chrono::milliseconds(20);
    } else if (const auto wait = take(reply, "wait", true)) {
      script.prompt_time = std::chrono::milliseconds(static_cast<int64_t>(*wait * 1000));
    } else if (const auto at = take(reply, "fail", true)) {
      script.fail_at = static_cast<size_t>(*at);
    } else {
      break;
    }
  }
  script.tokens = tokenizer.encode(reply);
  script.tokens.push_back(*tokenizer.id_of("<turn|>"));
  if (script.step_time.count() == 0) {
    for (size_t done = 0, wide = 1; done < script.tokens.size(); done += wide, wide = wide % 8 + 1)
      script.steps.push_back(wide);
  }
  return script;
}

int serve() {
  SystemTimers timers;
  ScriptedReplies replies;
  replies.context_size = 200'000;
  replies.load_now.sequences = 64;
  replies.choose = script_for;
  replies.go_on();
  Service service({.names = {.served_names = {"scripted"}}}, timers);
  service.open(scripted_model(), replies);
  http::Options options;
  options.port = 0;
  if (const char* key = std::getenv("SLIPSTREAM_API_KEY")) options.keys = {key};
  http::Server server(options, service.handler(), [](std::string_view path, const http::Refusal& refusal) {
    return error_body(path, refusal);
  });
  server.start();
  std::cout << server.port() << std::endl;
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) continue;
  service.stop();
  server.stop();
  return 0;
}

}  // namespace
}  // namespace slip::server::api

int main() {
  return slip::server::api::serve();
}
