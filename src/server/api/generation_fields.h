// What every API that generates shares: sampling options, lengths, stops, and how the answer comes back. One reader, so
// that a field means the same on every route.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api/fields.h"
#include "session/generation.h"

namespace slip::server::api {

inline constexpr int kMostChoices = 128;
inline constexpr int kMostStops = 256;
inline constexpr size_t kLongestStop = 4096;

struct GenerationFields {
  std::string model;  // empty: whichever is loaded
  session::Generation generation;
  std::optional<int64_t> max_tokens = {};  // as asked; 0 is for the caller to judge
  int choices = 1;
  bool stream = false;
  bool include_usage = false;
  std::optional<double> deadline_s = {};
  std::string cache_salt;
  bool report_drafts = false;          // who guessed each token; of chat and completions
  std::vector<int> continue_ids = {};  // of the reply so far; of chat and completions
  // The seed as it was sent, for the report: -1 comes back as -1.
  bool negative_seed = false;
};

/// `vocab`: of the model. Throws ApiError.
GenerationFields read_generation(const Fields& body, int vocab);

/// A string or a list of them under `key`, added to `stops`.
void read_stops(const Fields& body, const char* key, std::vector<std::string>& stops);

/// Fields that force a form on the answer, which nobody can keep yet: a 400 that says so.
void refuse_forced_forms(const Fields& body);

}  // namespace slip::server::api
