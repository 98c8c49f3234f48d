// FoundStop: which of several stop strings ended a reply. The engine says only that one did, so the last tokens are kept
// and searched when somebody asks: as many as the longest string can span.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace slip::server::api {

class FoundStop {
 public:
  /// The tokenizer outlives it.
  FoundStop(const text::Tokenizer& tokenizer, std::vector<std::string> stops);

  void add(int token);
  /// Of a reply that one of them ended: the one that ends first, and the longest of those.
  std::string text() const;

 private:
  const text::Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  size_t most_ = 0;  // tokens that may matter
  std::deque<int> last_;
};

}  // namespace slip::server::api
