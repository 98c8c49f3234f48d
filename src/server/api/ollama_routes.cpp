// The routes of ollama's API that clients need to talk: what runs here, and a chat. The others are a 501.
#include <fmt/format.h>

#include <ctime>

#include "server/api/error.h"
#include "server/api/ollama_reply.h"
#include "server/api/ollama_request.h"
#include "server/api/service_call.h"
#include "session/build_info.h"

namespace slip::server::api {
namespace {

using nlohmann::json;

// Clients ask for the version to learn what the API can do: that of an ollama with tools, thinking and capabilities.
constexpr const char* kApiVersion = "0.13.0";
constexpr std::string_view kLatest = ":latest";

/// The body with the model's name as other routes know it.
json read_body(const std::string& text) {
  json body = parse_body(text);
  const Fields fields(body);
  std::string name = fields.text("model").value_or(fields.text("name").value_or(""));
  if (name.ends_with(kLatest)) name.resize(name.size() - kLatest.size());
  body["model"] = name;
  return body;
}

Json details_json(const Json& weights) {
  const double parameters = weights.at("parameters");
  const double bits = weights.at("bytes").get<double>() * 8 / std::max(parameters, 1.0);
  return {{"parent_model", ""},
          {"format", weights.at("format")},
          {"family", "gemma4"},
          {"families", Json::array({"gemma4"})},
          {"parameter_size", parameters >= 1e9 ? fmt::format("{:.1f}B", parameters / 1e9)
                                               : fmt::format("{:.0f}M", parameters / 1e6)},
          {"quantization_level", fmt::format("{:.1f} bits", bits)}};
}

}  // namespace

void Service::ollama_version(Call& call) {
  respond_json(*call.exchange, {{"version", kApiVersion}, {"slipstream", session::build_version()}});
}

void Service::ollama_tags(Call& call) {
  const Json weights = card_->properties().at("weights");
  respond_json(*call.exchange, {{"models", Json::array({{{"name", card_->id()},
                                                         {"model", card_->id()},
                                                         {"modified_at", ollama_time(card_->created())},
                                                         {"size", weights.at("bytes")},
                                                         {"digest", weights.at("fingerprint")},
                                                         {"details", details_json(weights)}}})}});
}

void Service::ollama_show(Call& call) {
  require_named(read_body(call.request.body));
  const Json weights = card_->properties().at("weights");
  Json capabilities = Json::array({"completion"});
  if (model_->is_chat()) capabilities.insert(capabilities.end(), {"tools", "thinking"});
  if (sees_) capabilities.push_back("vision");
  respond_json(*call.exchange, {{"modelfile", ""},
                                {"parameters", ""},
                                {"template", ""},
                                {"modified_at", ollama_time(card_->created())},
                                {"details", details_json(weights)},
                                {"model_info",
                                 {{"general.architecture", "gemma4"},
                                  {"general.basename", card_->id()},
                                  {"general.parameter_count", weights.at("parameters")},
                                  {"gemma4.context_length", card_->context()}}},
                                {"capabilities", std::move(capabilities)}});
}

void Service::ollama_chat(Call& call) {
  const json body = read_body(call.request.body);
  require_named(body);
  // Clients load a model by asking it nothing; this one is loaded.
  if (const json* messages = Fields(body).find("messages");
      messages == nullptr || (messages->is_array() && messages->empty())) {
    return respond_json(*call.exchange, {{"model", card_->id()},
                                         {"created_at", ollama_time(std::time(nullptr))},
                                         {"message", {{"role", "assistant"}, {"content", ""}}},
                                         {"done", true},
                                         {"done_reason", "load"}});
  }
  ChatJob chat = chat_job(call, read_ollama_chat(body, reading()), "ollama-");
  OllamaReplyOptions options{.stream = chat.job.common.stream};
  chat.job.writer = [&](ReplyFrame frame) {
    options.chat = std::move(chat.reply);
    options.chat.frame = std::move(frame);
    return ollama_reply(std::move(options));
  };
  generate(call, std::move(chat.job));
}

}  // namespace slip::server::api
