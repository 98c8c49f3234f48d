// StreamDecoder: token ids in, one at a time, and out the text that is now certain. It never gives out half a
// character, and what it gives out never changes: all of it put together is Tokenizer::decode() of all ids
// (which is this class run to its end).
//
// Tokens are whole characters except byte-fallback ones. Those are held back until their run ends, because
// the rule for a run looks at all of it: a single stray byte turns the whole run into U+FFFD. Runs are short
// in practice (a rare character, 2 to 4 tokens). Hidden tokens and ids without a token neither show nor end a
// run. Cost: a copy of the token's text; no allocation once `out` and the held bytes have room.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace slip::text {

class StreamDecoder {
 public:
  /// The tokenizer must outlive the decoder. `options.skip_specials` hides special tokens.
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {})
      : tokenizer_(&tokenizer), options_(options) {}

  /// Appends the text that has become certain with this token to `out`.
  void feed(int id, std::string& out);
  std::string feed(int id);
  /// Appends what was held back, as it stands; the decoder is then as new.
  void finish(std::string& out);
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  std::string held_;  // the bytes of the run so far
};

}  // namespace slip::text
