// LoadPlan: what bench-serve asks of servers, and how. Configurations (a server and what is added to its requests) are
// measured in turns, so that what else the machines do meanwhile hits all of them alike.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace slip::cli {

struct LoadTarget {
  std::string name = {};
  std::string url = {};  // up to and without /v1
  std::string model = {};
  nlohmann::json fields = nlohmann::json::object();  // added to every request
};

/// One way to ask: so many at once, or so many a second.
struct LoadLevel {
  int concurrency = 0;  // 0: by rate
  double rate = 0;      // requests a second, at random moments
};

struct LoadPlan {
  std::vector<LoadTarget> targets = {};
  std::vector<LoadLevel> levels = {};
  std::string key = {};
  int requests = 0;  // of a measurement; 0 = eight for each that runs at once, at least 16
  int prompt = 256, shared = 0, answer = 128;  // tokens, roughly for prompts; `shared` begin all of them
  int rounds = 1, warmup = 2;
  uint64_t seed = 1;

  int requests_at(const LoadLevel& level) const;
};

/// The body of request `index` of a measurement. Prompts differ but for their shared part.
nlohmann::json load_request(const LoadPlan& plan, const LoadTarget& target, uint64_t index);

/// When the requests of a measurement by rate begin, in seconds: a Poisson process.
std::vector<double> load_arrivals(const LoadPlan& plan, const LoadLevel& level, uint64_t round);

}  // namespace slip::cli
