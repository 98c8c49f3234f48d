#include "cli/launch/server_probe.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "net/http_client.h"

namespace slip::cli {
namespace {

using Json = nlohmann::ordered_json;
using nlohmann::json;

constexpr std::chrono::seconds kPatience{3};
constexpr size_t kLongestBody = 1 << 20;

net::Fetched ask(const Served& served, const std::string& path, const Json& body = nullptr) {
  net::HttpClient client({.proxy = ""});  // the server is near, and its name is nobody else's business
  net::Request request{.url = served.url + path, .pace = {.silence = kPatience}};
  request.headers.push_back({"Content-Type", "application/json"});
  if (!served.key.empty()) request.headers.push_back({"Authorization", "Bearer " + served.key});
  if (!body.is_null()) {
    request.method = net::Method::kPost;
    request.body = body.dump();
  }
  return net::fetch(client, request, kLongestBody);
}

constexpr const char* kSchema = R"({"type": "object", "properties": {"city": {"type": "string"}}})";

/// A round with a tool, whose result the model is asked about.
Json round_of(Agent agent, const Served& served) {
  const Json schema = Json::parse(kSchema);
  const Json call{{"city", "Oslo"}};
  const char* question = "How warm is it in Oslo? Answer with one number.";
  Json body{{"model", served.model}, {"temperature", 0}};
  if (agent == Agent::kClaude) {
    body["max_tokens"] = 8;
    body["tools"] = {
        {{"name", "weather"}, {"description", "the weather of a city"}, {"input_schema", schema}}};
    body["messages"] = {
        {{"role", "user"}, {"content", question}},
        {{"role", "assistant"},
         {"content", {{{"type", "tool_use"}, {"id", "toolu_1"}, {"name", "weather"}, {"input", call}}}}},
        {{"role", "user"},
         {"content", {{{"type", "tool_result"}, {"tool_use_id", "toolu_1"}, {"content", "18 degrees"}}}}}};
  } else if (agent == Agent::kCodex) {
    body["max_output_tokens"] = 8;
    body["tools"] = {{{"type", "function"},
                      {"name", "weather"},
                      {"description", "the weather of a city"},
                      {"parameters", schema}}};
    body["input"] = {
        {{"role", "user"}, {"content", question}},
        {{"type", "function_call"}, {"call_id", "call_1"}, {"name", "weather"}, {"arguments", call.dump()}},
        {{"type", "function_call_output"}, {"call_id", "call_1"}, {"output", "18 degrees"}}};
  } else {
    const Json function{
        {"name", "weather"}, {"description", "the weather of a city"}, {"parameters", schema}};
    const Json made{{"id", "call_1"},
                    {"type", "function"},
                    {"function", {{"name", "weather"}, {"arguments", call.dump()}}}};
    body["max_tokens"] = 8;
    body["tools"] = {{{"type", "function"}, {"function", function}}};
    body["messages"] = {{{"role", "user"}, {"content", question}},
                        {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({made})}},
                        {{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "18 degrees"}}};
  }
  return body;
}

/// What an error object says, of either maker.
std::string message_of(const std::string& body) {
  const json parsed = json::parse(body, nullptr, false);
  const json error = parsed.is_object() ? parsed.value("error", json()) : json();
  if (error.is_object() && error.value("message", json()).is_string()) return error["message"];
  return body.substr(0, 200);
}

}  // namespace

std::optional<Served> find_server(const std::string& url, const std::string& key) {
  Served served{.url = url, .model = "", .key = key};
  net::Fetched got = ask(served, "/v1/models");
  // Loading, or going down: either passes.
  while (got.end.outcome == net::Outcome::kDone && got.reply.status == 503) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    got = ask(served, "/v1/models");
  }
  if (got.end.outcome == net::Outcome::kNoConnection) return std::nullopt;
  if (got.end.outcome != net::Outcome::kDone)
    fail(ErrorKind::kRuntime, "{} does not answer: {}", url, got.end.message);
  if (got.reply.status == 401) fail_usage("{} wants a key; set SLIPSTREAM_API_KEY or give --api-key", url);
  const json body = json::parse(got.body, nullptr, false);
  const json list = body.is_object() ? body.value("data", json()) : json();
  if (got.reply.status != 200 || !list.is_array() || list.empty() || !list[0].is_object() ||
      !list[0].value("id", json()).is_string())
    fail(ErrorKind::kRuntime, "{} answers, and is no Slipstream server: {}; give another --url", url,
         message_of(got.body));
  served.model = list[0]["id"];
  served.context = list[0].value("max_model_len", 0);
  return served;
}

bool is_ready(const std::string& url) {
  const net::Fetched got = ask({.url = url, .model = "", .key = ""}, "/health");
  return got.end.outcome == net::Outcome::kDone && got.reply.status == 200;
}

SelfTest self_test(Agent agent, const Served& served) {
  const auto begun = std::chrono::steady_clock::now();
  const std::string route(facts_of(agent).route);
  const net::Fetched got = ask(served, route, round_of(agent, served));
  SelfTest test{.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count()};
  if (got.end.outcome == net::Outcome::kSilent) return test;
  if (got.end.outcome != net::Outcome::kDone)
    fail(ErrorKind::kRuntime, "{}{} does not answer: {}", served.url, route, got.end.message);
  if (got.reply.status != 200)
    fail(ErrorKind::kRuntime, "the self-test failed: {}{} answers {}: {}", served.url, route,
         got.reply.status, message_of(got.body));
  test.answered = true;
  const json body = json::parse(got.body, nullptr, false);
  if (body.is_object() && body.contains("timings"))
    test.prompt_rate = body["timings"].value("prompt_per_second", 0.0);
  return test;
}

}  // namespace slip::cli
