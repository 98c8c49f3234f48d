// The first half of reading tokenizer.json: JSON text to values. model.vocab and model.merges, which hold a
// million and a half strings in Gemma's file, are streamed into flat lists; everything else becomes an
// ordinary JSON tree, whose size and depth are bounded.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_file.h"

namespace slip::text {

struct TokenizerJson {
  nlohmann::json rest;  // the file without vocab and merges
  TextList pieces;
  std::vector<int> ids;
  TextList merges;  // left and right by turns
};

/// Throws Error(kBadFile) for what is no JSON, or where vocab or merges hold something else than they should.
TokenizerJson read_tokenizer_json(std::string_view text, const std::string& name);

}  // namespace slip::text
