// What the coding agents that people use must be told to work with this server: environment, options, and files of their
// own in a temporary folder. Nothing that belongs to the user is written.
//
// Each fact here was found with the real programs; docs/server.md says what each setting is for.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slip::cli {

enum class Agent { kClaude, kCodex, kOpencode };

/// What is known of an agent before it runs.
struct AgentFacts {
  std::string_view name;     // and of its program
  std::string_view package;  // of npm
  std::string_view route;    // that it asks
  int first_prompt;          // tokens, about
};
const AgentFacts& facts_of(Agent agent);

/// The server as an agent sees it.
struct Served {
  std::string url;  // without /v1, and without a slash at its end
  std::string model;
  std::string key;  // empty: none is needed
  int context = 0;  // 0: the server did not say
};

struct AgentCommand {
  std::vector<std::string> arguments = {};  // behind the program's name
  /// To be set; an empty value means to be taken away.
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// Name and content of files it reads in the folder.
  std::vector<std::pair<std::string, std::string>> files = {};
};

/// `folder`: where its files will lie. `more`: the user's own arguments.
AgentCommand agent_command(Agent agent, const Served& served, const std::string& folder,
                           const std::vector<std::string>& more);

}  // namespace slip::cli
