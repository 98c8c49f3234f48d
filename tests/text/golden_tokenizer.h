// The golden tokenizer and its cases, loaded once for all tests of this room.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace slip::text {

struct GoldenCase {
  std::string text;
  std::vector<int> ids;
  std::string decoded;
};

const std::string& golden_json();
const Tokenizer& golden_tokenizer();
const std::vector<GoldenCase>& golden_cases();

}  // namespace slip::text
