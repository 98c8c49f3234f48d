// launch: a coding agent on this server, from nothing to its first prompt: finds or starts the server, tries a round with
// a tool, and gives the agent its settings. The user's own files are not touched.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/human.h"
#include "cli/commands/command.h"
#include "cli/flags/parser.h"
#include "cli/launch/agents.h"
#include "cli/launch/processes.h"
#include "cli/launch/server_probe.h"
#include "cli/terminal/output.h"
#include "net/url.h"
#include "server/http/api_keys.h"

namespace slip::cli {

extern const Command launch_command;

namespace {

constexpr double kLongWait = 30;  // seconds for a first prompt, above which a smaller one is suggested

struct LaunchOptions {
  Agent agent = Agent::kClaude;
  std::string url = "http://127.0.0.1:8080";
  std::string model, key_file, context;
  bool show = false;
  std::vector<std::string> more = {};  // for the agent
};

Agent agent_named(const std::string& name) {
  for (const Agent agent : {Agent::kClaude, Agent::kCodex, Agent::kOpencode}) {
    if (facts_of(agent).name == name) return agent;
  }
  fail_usage("there is no agent '{}'; launch claude, codex or opencode", name);
}

bool parse(const Arguments& args, LaunchOptions& options) {
  const auto dashes = std::find(args.begin(), args.end(), "--");
  if (dashes != args.end()) options.more.assign(dashes + 1, args.end());
  std::vector<std::string> names;
  Parser parser(launch_command, "claude|codex|opencode [-- its own arguments]");
  parser.words({"agent", "AGENT", "claude, codex or opencode"}, names, 1, 1);
  parser.group("Server");
  parser.text({"--url", "URL", "of the server (default http://127.0.0.1:8080); started there if none runs"},
              options.url);
  parser.text({"-m,--model", "MODEL", "for a server that is started (default: models/tiny)"}, options.model);
  parser.text({"-c,--context,--ctx-size", "N", "likewise (default: as fits)"}, options.context);
  parser.text({"--api-key,--api-key-file", "FILE", "whose first line is the key; or SLIPSTREAM_API_KEY"},
              options.key_file);
  parser.group("Agent");
  parser.flag("--show", options.show, "print its settings, and start nothing");
  if (!parser.parse(Arguments(args.begin(), dashes))) return false;
  options.agent = agent_named(names.front());
  while (options.url.ends_with('/')) options.url.pop_back();
  if (options.url.ends_with("/v1")) options.url.resize(options.url.size() - 3);
  return true;
}

/// A folder that goes with this object.
class OwnFolder {
 public:
  OwnFolder() {
    path_ = (std::filesystem::temp_directory_path() / "slipstream-launch-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) fail_file("{}: cannot be made", path_);
  }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream file(path_ + "/" + name, std::ios::binary);
    file << content;
    if (!file.flush()) fail_file("{}/{}: cannot be written", path_, name);
  }

 private:
  std::string path_;
};

std::string port_of(const std::string& url) {
  const auto parsed = net::parse_url(url);
  const bool local = parsed && (parsed->host == "127.0.0.1" || parsed->host == "localhost");
  if (!local) fail_usage("{} does not answer, and a server can be started on this machine only", url);
  return parsed->port;
}

/// Waits until the server that was just started can answer.
void wait_until_ready(OwnServer& server, const std::string& url) {
  while (!is_ready(url)) {
    if (!server.runs())
      fail(ErrorKind::kRuntime, "the server ended before it was ready; `slipstream serve` says why");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::unique_ptr<OwnServer> start_server(const LaunchOptions& options) {
  // When the agent has ended, nobody is left whose answer it would have to finish.
  std::vector<std::string> arguments{"--quiet",         "--port", port_of(options.url), "--drain-grace", "0",
                                     "--drain-timeout", "0"};
  if (!options.model.empty()) arguments.insert(arguments.end(), {"--model", options.model});
  if (!options.context.empty()) arguments.insert(arguments.end(), {"--context", options.context});
  if (!options.key_file.empty()) arguments.insert(arguments.end(), {"--api-key", options.key_file});
  write_err(fmt::format("starting a server at {}\n", options.url));
  auto server = std::make_unique<OwnServer>(arguments);
  wait_until_ready(*server, options.url);
  return server;
}

/// What a person should know before the agent takes the terminal.
std::string test_text(Agent agent, const Served& served, const SelfTest& test) {
  const AgentFacts& facts = facts_of(agent);
  std::string text =
      fmt::format("{} with {} at {}, context {}", facts.name, served.model, served.url, served.context);
  text += test.answered ? fmt::format("; a round with a tool took {:.1f} s\n", test.seconds)
                        : std::string("; a round with a tool takes more than 3 s here\n");
  if (served.context > 0 && served.context < facts.first_prompt * 5 / 4) {
    text += fmt::format("warning: its first prompt has about {} tokens, too many for this context\n",
                        facts.first_prompt);
  }
  const double wait = test.prompt_rate > 0 ? facts.first_prompt / test.prompt_rate : 0;
  if (wait > kLongWait) {
    text += fmt::format("its first prompt of about {} tokens will take about {:.0f} s{}\n",
                        facts.first_prompt, wait,
                        agent == Agent::kClaude ? "; `slipstream launch claude -- --bare` sends 1,000" : "");
  }
  return text;
}

std::string settings_text(Agent agent, const AgentCommand& command) {
  std::string text;
  for (const auto& [name, value] : command.environment)
    text += value.empty() ? fmt::format("unset {}\n", name) : fmt::format("{}={}\n", name, value);
  text += facts_of(agent).name;
  for (const std::string& argument : command.arguments) text += " " + argument;
  text += "\n";
  for (const auto& [name, content] : command.files) text += fmt::format("\n{}:\n{}\n", name, content);
  return text;
}

int run_launch(const Arguments& args) {
  LaunchOptions options;
  if (!parse(args, options)) return kExitOk;
  const AgentFacts& facts = facts_of(options.agent);
  const std::string program = find_program(std::string(facts.name));
  if (program.empty() && !options.show)
    fail_usage("{} is not installed; `npm install -g {}` does it", facts.name, facts.package);
  const char* variable = std::getenv("SLIPSTREAM_API_KEY");
  const auto keys = server::http::load_api_keys(options.key_file, variable == nullptr ? "" : variable);
  const std::string key = keys.empty() ? "" : keys.front();

  std::unique_ptr<OwnServer> own;
  auto served = find_server(options.url, key);
  if (options.show) {
    const Served example{.url = options.url, .model = "MODEL", .key = key};
    write_out(settings_text(options.agent,
                            agent_command(options.agent, served.value_or(example), "FOLDER", options.more)));
    return kExitOk;
  }
  if (!served) {
    own = start_server(options);
    served = find_server(options.url, key);
    if (!served) fail(ErrorKind::kRuntime, "{} went away", options.url);
  }
  write_err(test_text(options.agent, *served, self_test(options.agent, *served)));

  const OwnFolder folder;
  const AgentCommand command = agent_command(options.agent, *served, folder.path(), options.more);
  for (const auto& [name, content] : command.files) folder.write(name, content);
  return run_program(program, command.arguments, command.environment);
}

}  // namespace

const Command launch_command{"launch", "Start Claude Code, Codex or opencode on this server", run_launch};

}  // namespace slip::cli
