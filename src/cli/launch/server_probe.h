// Questions that `launch` asks a server before an agent does: whether it is there, what it runs, and whether a round with
// a tool works on the agent's own route.
#pragma once

#include <optional>
#include <string>

#include "cli/launch/agents.h"

namespace slip::cli {

/// What runs there; nothing when nobody listens. Throws Error for a server that wants another key, or is none of ours.
std::optional<Served> find_server(const std::string& url, const std::string& key);

/// Whether it can answer now.
bool is_ready(const std::string& url);

struct SelfTest {
  bool answered = false;  // within three seconds
  double seconds = 0;
  double prompt_rate = 0;  // tokens per second; 0: not known
};
/// One short request with a tool, its call and the result. Throws Error when the server refuses it.
SelfTest self_test(Agent agent, const Served& served);

}  // namespace slip::cli
