#include "cli/launch/agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace slip::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr AgentFacts kFacts[] = {
    {"claude", "@anthropic-ai/claude-code", "/v1/messages", 20'000},
    {"codex", "@openai/codex", "/v1/responses", 6'000},
    {"opencode", "opencode-ai", "/v1/chat/completions", 7'500},
};

// Some of them send no request at all without a key.
constexpr const char* kNoKey = "none";
constexpr const char* kKeyVariable = "SLIPSTREAM_API_KEY";
constexpr int kUnknownContext = 32'768;
constexpr int kLongestAnswer = 32'000;

// Codex sends 17 kB of its own to a model that it does not know. A small model does better with less.
constexpr const char* kCodexInstructions =
    "You are a coding agent that works in the user's project through tools.\n"
    "- Look before you change: read the files that matter, and search instead of guessing.\n"
    "- Use one tool call for one step, wait for its result, and go on from what it says.\n"
    "- Change as little as the task needs, in the style of the code around it.\n"
    "- When a command fails, read its output and find the cause before you try again.\n"
    "- After a change run the tests or the program where that is possible.\n"
    "- Never delete or overwrite work that you were not asked to touch.\n"
    "- When the task is done, say in a few sentences what you did and what is left.\n";

int context_of(const Served& served) {
  return served.context > 0 ? served.context : kUnknownContext;
}

/// Room for an answer that leaves most of the context to the conversation.
int answer_of(const Served& served) {
  return std::clamp(context_of(served) / 4, 256, kLongestAnswer);
}

std::string key_of(const Served& served) {
  return served.key.empty() ? kNoKey : served.key;
}

void add_claude(const Served& served, AgentCommand& command) {
  auto& environment = command.environment;
  environment = {{"ANTHROPIC_BASE_URL", served.url},
                 {"ANTHROPIC_AUTH_TOKEN", key_of(served)},
                 {"ANTHROPIC_API_KEY", ""},  // it would be sent instead of the token
                 {"CLAUDE_CODE_ATTRIBUTION_HEADER", "0"},
                 {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"},
                 {"CLAUDE_CODE_AUTO_COMPACT_WINDOW", std::to_string(context_of(served))},
                 {"CLAUDE_CODE_MAX_OUTPUT_TOKENS", std::to_string(answer_of(served))},
                 {"API_TIMEOUT_MS", "1800000"}};
  for (const char* tier :
       {"ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL"})
    environment.emplace_back(tier, served.model);
}

/// Without an entry Codex warns at each start that it does not know the model.
std::string codex_catalog(const Served& served) {
  const auto level = [](const char* effort, const char* description) {
    return Json{{"effort", effort}, {"description", description}};
  };
  const Json model{
      {"slug", served.model},
      {"display_name", served.model},
      {"description", "served by Slipstream"},
      {"default_reasoning_level", "none"},
      {"supported_reasoning_levels",
       Json::array({level("none", "answers at once"), level("medium", "thinks before it answers")})},
      {"shell_type", "shell_command"},
      {"visibility", "list"},
      {"supported_in_api", true},
      {"priority", 1},
      {"base_instructions", kCodexInstructions},
      {"supports_reasoning_summaries", true},
      {"supports_parallel_tool_calls", true},
      {"support_verbosity", false},
      {"truncation_policy", {{"mode", "tokens"}, {"limit", std::clamp(context_of(served) / 8, 500, 10'000)}}},
      {"experimental_supported_tools", Json::array()},
      {"input_modalities", Json::array({"text"})},
      {"context_window", context_of(served)}};
  return Json{{"models", Json::array({model})}}.dump(1);
}

void add_codex(const Served& served, const std::string& folder, AgentCommand& command) {
  constexpr const char* kCatalog = "codex_models.json";
  // Values are TOML, whose strings JSON's are.
  const auto set = [&](const std::string& key, const Json& value) {
    command.arguments.insert(command.arguments.end(), {"-c", key + "=" + value.dump()});
  };
  set("model", served.model);
  set("model_provider", "slipstream");
  set("model_providers.slipstream.name", "Slipstream");
  set("model_providers.slipstream.base_url", served.url + "/v1");
  set("model_providers.slipstream.wire_api", "responses");
  set("model_providers.slipstream.env_key", kKeyVariable);
  set("model_catalog_json", folder + "/" + kCatalog);
  set("model_context_window", context_of(served));
  set("model_auto_compact_token_limit", context_of(served) * 9 / 10);
  set("web_search", "disabled");
  command.environment = {{kKeyVariable, key_of(served)}};
  command.files.emplace_back(kCatalog, codex_catalog(served));
}

void add_opencode(const Served& served, AgentCommand& command) {
  const Json model{{"name", served.model},
                   {"tool_call", true},
                   {"reasoning", true},
                   {"attachment", false},
                   {"limit", {{"context", context_of(served)}, {"output", answer_of(served)}}},
                   {"modalities", {{"input", Json::array({"text"})}, {"output", Json::array({"text"})}}}};
  const Json provider{{"npm", "@ai-sdk/openai-compatible"},
                      {"name", "Slipstream"},
                      {"options", {{"baseURL", served.url + "/v1"}, {"apiKey", key_of(served)}}},
                      {"models", {{served.model, model}}}};
  const std::string name = "slipstream/" + served.model;
  const Json config{{"$schema", "https://opencode.ai/config.json"},
                    {"provider", {{"slipstream", provider}}},
                    {"model", name},
                    {"small_model", name}};
  // Read beside the user's own files, which stay as they are.
  command.environment = {{"OPENCODE_CONFIG_CONTENT", config.dump()}};
}

}  // namespace

const AgentFacts& facts_of(Agent agent) {
  return kFacts[static_cast<size_t>(agent)];
}

AgentCommand agent_command(Agent agent, const Served& served, const std::string& folder,
                           const std::vector<std::string>& more) {
  AgentCommand command;
  switch (agent) {
    case Agent::kClaude: add_claude(served, command); break;
    case Agent::kCodex: add_codex(served, folder, command); break;
    case Agent::kOpencode: add_opencode(served, command); break;
  }
  command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  return command;
}

}  // namespace slip::cli
