// launch: what each agent is told, and a whole run with an agent that is a script.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/launch/agents.h"
#include "support/program.h"

namespace slip::cli {
namespace {

using nlohmann::json;

const Served kServed{.url = "http://127.0.0.1:9", .model = "gemma", .key = "", .context = 65536};

std::map<std::string, std::string> environment_of(const AgentCommand& command) {
  return {command.environment.begin(), command.environment.end()};
}

TEST(Launch, users_28_claude_gets_every_tier_a_token_and_the_real_window) {
  const auto environment = environment_of(agent_command(Agent::kClaude, kServed, "/f", {}));
  EXPECT_EQ(environment.at("ANTHROPIC_BASE_URL"), "http://127.0.0.1:9");
  EXPECT_FALSE(environment.at("ANTHROPIC_AUTH_TOKEN").empty()) << "without one it asks the user to log in";
  EXPECT_EQ(environment.at("ANTHROPIC_API_KEY"), "") << "taken away";
  EXPECT_EQ(environment.at("CLAUDE_CODE_ATTRIBUTION_HEADER"), "0");
  EXPECT_EQ(environment.at("CLAUDE_CODE_AUTO_COMPACT_WINDOW"), "65536");
  EXPECT_EQ(environment.at("CLAUDE_CODE_MAX_OUTPUT_TOKENS"), "16384");
  for (const char* tier :
       {"ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL"})
    EXPECT_EQ(environment.at(tier), "gemma") << tier;
}

TEST(Launch, users_28_codex_gets_a_provider_a_catalog_and_the_users_own_words_last) {
  Served served = kServed;
  served.key = "secret";
  const AgentCommand command = agent_command(Agent::kCodex, served, "/f", {"exec", "do it"});
  EXPECT_EQ(environment_of(command).at("SLIPSTREAM_API_KEY"), "secret");
  ASSERT_GE(command.arguments.size(), 4u);
  EXPECT_EQ(command.arguments.back(), "do it");
  std::map<std::string, json> settings;
  for (size_t i = 0; i + 2 < command.arguments.size(); i += 2) {
    ASSERT_EQ(command.arguments[i], "-c");
    const std::string& setting = command.arguments[i + 1];
    const size_t equals = setting.find('=');
    settings[setting.substr(0, equals)] = json::parse(setting.substr(equals + 1));
  }
  EXPECT_EQ(settings.at("model_providers.slipstream.base_url"), "http://127.0.0.1:9/v1");
  EXPECT_EQ(settings.at("model_providers.slipstream.wire_api"), "responses");
  EXPECT_EQ(settings.at("model_providers.slipstream.env_key"), "SLIPSTREAM_API_KEY");
  EXPECT_EQ(settings.at("model_context_window"), 65536);
  EXPECT_EQ(settings.at("model_catalog_json"), "/f/" + command.files.at(0).first);
  const json model = json::parse(command.files.at(0).second)["models"][0];
  EXPECT_EQ(model["slug"], "gemma");
  EXPECT_EQ(model["context_window"], 65536);
}

TEST(Launch, users_28_opencode_gets_limits_and_modalities) {
  const json config = json::parse(
      environment_of(agent_command(Agent::kOpencode, kServed, "/f", {})).at("OPENCODE_CONFIG_CONTENT"));
  const json& provider = config["provider"]["slipstream"];
  EXPECT_EQ(provider["options"]["baseURL"], "http://127.0.0.1:9/v1");
  EXPECT_EQ(provider["models"]["gemma"]["limit"], (json{{"context", 65536}, {"output", 16384}}));
  EXPECT_EQ(provider["models"]["gemma"]["modalities"]["input"], json::array({"text"}));
  EXPECT_EQ(config["model"], "slipstream/gemma");
  EXPECT_EQ(config["small_model"], "slipstream/gemma") << "titles are asked of this server too";
}

/// Runs the program with another PATH.
test::Result run_with_path(const std::vector<std::string>& args, const std::string& path) {
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", path.c_str(), 1);
  test::Result result = test::run(args);
  ::setenv("PATH", before.c_str(), 1);
  return result;
}

TEST(Launch, an_unknown_agent_and_a_missing_program_end_with_a_sentence) {
  const test::Result unknown = test::run({"launch", "copilot"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("claude, codex or opencode"), std::string::npos) << unknown.err;
  const test::Result missing = run_with_path({"launch", "claude"}, "/nowhere");
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("npm install -g @anthropic-ai/claude-code"), std::string::npos) << missing.err;
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

bool listens(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool there = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(socket);
  return there;
}

TEST(Launch, starts_a_server_tries_it_runs_the_agent_with_its_settings_and_ends_the_server) {
  const test::TemporaryFolder folder;
  for (const std::string name : {"claude", "codex", "opencode"}) {
    SCOPED_TRACE(name);
    const int port = free_port();
    const std::string url = "http://127.0.0.1:" + std::to_string(port);
    test::write_file(folder.path(name), "#!/bin/sh\necho \"$@\" > " + folder.path(name + ".args") +
                                            "\nenv > " + folder.path(name + ".env") + "\nexit 7\n");
    ASSERT_EQ(::chmod(folder.path(name).c_str(), 0755), 0);
    const std::string path = folder.path("") + ":" + std::getenv("PATH");
    const test::Result result =
        run_with_path({"launch", name, "--url", url, "--context", "4096", "--", "--flag", "word"}, path);
    EXPECT_EQ(result.code, 7) << "the agent's own code: " << result.err;
    EXPECT_NE(result.err.find("a round with a tool took"), std::string::npos) << result.err;
    const std::string arguments = test::read_file(folder.path(name + ".args"));
    EXPECT_TRUE(arguments.ends_with("--flag word\n")) << arguments;
    EXPECT_NE((arguments + test::read_file(folder.path(name + ".env"))).find(url), std::string::npos);
    EXPECT_FALSE(listens(port)) << "the server outlived its launcher";
  }
}

}  // namespace
}  // namespace slip::cli
