// TokenizerFile: what a Hugging Face tokenizer.json of Gemma's kind says, checked but not yet built into
// tables. The kind is: BPE with explicit merges, spaces turned into U+2581 or left alone, no splitting into
// words, and a decoder that undoes just that. Anything else is refused by name, because a tokenizer that is
// nearly right gives a model that is quietly wrong. Post-processors are ignored: whoever encodes says whether
// a BOS is wanted.
//
// The file of a real Gemma holds 32 MB, nearly all of it vocabulary and merges. Those two are read straight
// into flat arrays while parsing; only the small rest becomes a JSON tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"

namespace slip::text {

/// Texts end to end in one string: no allocation for each, and nothing to free one by one.
class TextList {
 public:
  void add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(bytes_.size());
  }
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

struct TokenizerFile {
  TextList pieces;
  std::vector<int> ids;  // of the pieces
  TextList merges;       // left and right by turns, in order of rank
  std::vector<AddedToken> added;
  bool replaces_spaces = false;  // the normaliser turns " " into U+2581
  bool byte_fallback = false;
  bool fuse_unk = false;
  std::string unk_token;  // empty when there is none
};

/// `name` stands for the file in messages. Throws Error(kBadFile).
TokenizerFile parse_tokenizer_file(std::string_view json, const std::string& name);

/// A text of the file as an error message shows it: in quotes, escaped, cut short.
std::string in_quotes(std::string_view text);

}  // namespace slip::text
