// LoadSample: what one request of bench-serve met, read from its stream of events as the bytes come.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slip::cli {

/// Seconds on one clock, of the measurement's choosing.
struct LoadSample {
  double begun = 0, first = 0, last = 0, ended = 0;  // first and last: events that brought tokens
  std::vector<double> pauses = {};                   // between those
  int prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  int drafted = 0, accepted = 0;  // where the server says so
  std::string error = {};         // a sentence; empty: the answer was whole

  double first_token_s() const { return first - begun; }
  /// Mean seconds of a token after the first one.
  double token_s() const { return output_tokens > 1 ? (last - first) / (output_tokens - 1) : 0; }
};

/// Reads chat's stream. Knows half events; what is no event of a chat makes an error.
class LoadReader {
 public:
  explicit LoadReader(double begun) { sample_.begun = begun; }
  void on_head(int status) { status_ = status; }
  void on_body(std::string_view bytes, double now);
  /// `error`: of the connection; empty when it ended well.
  LoadSample finish(const std::string& error, double now);

 private:
  void event(std::string_view data, double now);

  LoadSample sample_;
  int status_ = 0;
  std::string text_;  // not read yet
  bool done_ = false;
};

}  // namespace slip::cli
