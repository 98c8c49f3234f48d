// RequestRecord: what is known of one request when it is over, for its log line, the metrics and its usage. Numbers
// only; never text.
#pragma once

#include <string>

#include "engine/request.h"
#include "engine/stats.h"
#include "server/api/json_text.h"

namespace slip::server::api {

/// One sequence's end.
struct ReplyRecord {
  engine::FinishReason finish = engine::FinishReason::kNone;
  engine::Stats stats;
};

struct RequestRecord {
  std::string id = {}, route = {}, key = {};
  int status = 0;
  bool stream = false;
  int choices = 1;         // asked for, per prompt
  int64_t max_tokens = 0;  // of each reply, after clamping
  bool generated = false;  // the model was asked; else only the first line counts
  double seconds = 0;      // from the request to the end of its answer
  std::string error = {};  // its code
  std::vector<ReplyRecord> replies = {};
  int calls = 0;           // of tools
  bool no_answer = false;  // the prompt alone was wanted; what the model wrote does not count

  /// Sums over all replies; a prompt that several replies share counts once.
  struct Totals {
    int prompt = 0, cached = 0, output = 0, reasoning = 0;
    double queued_s = 0, first_token_s = 0, prompt_s = 0, decode_s = 0;  // the longest
    int decoded = 0;
    speculate::Statistics speculation;
  };
  Totals totals() const;
};

/// OpenAI's usage object.
Json usage_json(const RequestRecord& record);
/// Our extension, with llama.cpp's names where it has them.
Json timings_json(const RequestRecord& record);
/// One line for the log, without a line break.
std::string log_line(const RequestRecord& record, bool json);

}  // namespace slip::server::api
