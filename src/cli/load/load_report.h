// What bench-serve prints: figures of its results, as markdown for people and as JSON. Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/load/load_run.h"

namespace slip::cli {

/// The value below which a share of `values` lies (nearest rank); 0 without any.
double percentile(std::vector<double> values, double share);

struct LoadFigures {
  int answered = 0, failed = 0;
  double requests_per_s = 0, tokens_per_s = 0;
  double prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // means
  double acceptance = -1;                                          // of guesses; -1: the server does not say
  struct Spread {
    double p50 = 0, p90 = 0, p99 = 0;
  };
  Spread first_token_s, token_s, pause_s, whole_s;
};

LoadFigures figures_of(const LoadResult& result);
std::string load_markdown(const LoadPlan& plan, const std::vector<LoadResult>& results);
nlohmann::ordered_json load_json(const LoadPlan& plan, const std::vector<LoadResult>& results);

}  // namespace slip::cli
