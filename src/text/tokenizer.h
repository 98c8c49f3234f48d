// Tokenizer: text to token ids and back, exactly as Hugging Face's tokenizers do with a tokenizer.json of
// Gemma's kind. Added tokens are found first in the raw text; what lies between them has its spaces turned
// into U+2581 and goes through BPE whole.
//
// A text from outside must be encoded with `specials` off: then "<bos>" in it stays five characters of text,
// and no special token can come out (other than the unknown one, in files without byte tokens).
//
// Immutable after loading; encode and decode may be called from many threads. Encoding takes O(n log n), 0.05
// to 0.2 s for 1 MB; loading a file of Gemma's size (262144 tokens, 515,000 merges) 0.3 s.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"

namespace slip::text {

struct Rendered;
struct TokenizerFile;

struct EncodeOptions {
  bool specials = true;  // special tokens written out in the text become those tokens
  bool add_bos = false;  // puts <bos> in front, unless the text already starts with that token
  /// The origins of the text's bytes: special tokens are only found where all their bytes are the template's.
  const Rendered* origins = nullptr;
};

struct DecodeOptions {
  bool skip_specials = false;
};

class Tokenizer {
 public:
  /// Texts longer than this are refused: no context holds them, and BPE takes some 50 times their size.
  static constexpr size_t kLongestText = size_t{64} << 20;

  /// Throws Error(kBadFile) that names the file and its fault.
  static Tokenizer load(const std::string& path);
  /// The same from memory; `name` stands for the file in messages.
  static Tokenizer parse(std::string_view json, const std::string& name);

  /// Any bytes are welcome: what is no valid UTF-8 becomes byte tokens. Too long a text throws Error(kUsage).
  std::vector<int> encode(std::string_view text, EncodeOptions options = {}) const;
  /// A run of byte tokens that is no valid UTF-8 becomes one U+FFFD per byte, all of it, as in Hugging Face's
  /// decoder. Ids without a token render as nothing.
  std::string decode(std::span<const int> ids, DecodeOptions options = {}) const;

  /// One past the largest id.
  int vocab_size() const { return vocabulary().size(); }
  std::optional<int> id_of(std::string_view token) const;
  /// The token as the file spells it; empty for ids without a token.
  const std::string& piece(int id) const;
  /// Whether the token steers the model instead of being text. False for ids without a token.
  bool is_special(int id) const { return vocabulary().contains(id) && vocabulary().is_special(id); }
  std::optional<int> bos() const { return id_of("<bos>"); }
  /// The file it came from.
  const std::string& name() const { return name_; }

 private:
  Tokenizer(TokenizerFile file, std::string name);
  const Vocabulary& vocabulary() const { return bpe_.vocabulary(); }
  void encode_plain(std::string_view text, const SpecialsWanted& specials, Bpe::Scratch& scratch,
                    std::vector<int>& out) const;

  std::string name_;
  Bpe bpe_;
  AddedTokenMatcher raw_;         // added tokens matched on the raw text
  AddedTokenMatcher normalized_;  // and those matched on normalised text
  bool replaces_spaces_ = false;
};

}  // namespace slip::text
