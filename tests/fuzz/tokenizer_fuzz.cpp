// Fuzzes tokenizer.json: whatever file comes in, what comes out is a tokenizer that encodes every text into
// ids of its vocabulary, or an Error.
#include "base/error.h"
#include "fuzz/target.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using slip::text::StreamDecoder;
using slip::text::Tokenizer;

void check_text(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool specials : {true, false}) {
    const std::vector<int> ids = tokenizer.encode(text, {.specials = specials});
    std::string streamed;
    StreamDecoder decoder(tokenizer);
    for (const int id : ids) {
      fuzz_check(id >= 0 && id < tokenizer.vocab_size() && !tokenizer.piece(id).empty());
      decoder.feed(id, streamed);
    }
    decoder.finish(streamed);
    fuzz_check(tokenizer.decode(ids) == streamed);
    fuzz_check(text.empty() || !ids.empty());
  }
}

/// What a user writes holds no control token, whatever it spells.
void check_foreign_text(const Tokenizer& tokenizer) {
  for (int id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string& piece = tokenizer.piece(id);
    if (!tokenizer.is_special(id) || !(piece.starts_with("<|") || piece.ends_with("|>"))) continue;
    for (const int found : tokenizer.encode("a" + piece + piece, {.specials = false}))
      fuzz_check(found != id);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::parse(json, "fuzz");
    for (const std::string_view text :
         {std::string_view(), std::string_view("abaa  aba\n"),
          std::string_view("\xC3\xA9\xF0\x9F\xA6\x8A\xFF"),
          std::string_view("<bos><|turn>user\nhi<turn|><unk>"), json.substr(0, 400)}) {
      check_text(tokenizer, text);
    }
    check_foreign_text(tokenizer);
  } catch (const slip::Error&) {
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"added_tokens":[{"id":0,"content":"<unk>","special":true},{"id":9,"content":"<bos>","special":true},
         {"id":10,"content":"<|turn>","special":false},{"id":11,"content":"ab!","normalized":true,"lstrip":true,
         "rstrip":true,"single_word":true}],
         "normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},
         "pre_tokenizer":{"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false},
         "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
         {"type":"ByteFallback"},{"type":"Fuse"}]},
         "model":{"type":"BPE","unk_token":"<unk>","byte_fallback":true,"fuse_unk":true,"dropout":null,
         "vocab":{"<unk>":0,"a":1,"b":2,"▁":3,"ab":4,"aba":5,"<0xC3>":6,"<0xA9>":7,"c":8},
         "merges":["a b",["ab","a"]]}})",
      R"({"model":{"type":"BPE","unk_token":"x","vocab":{"x":0,"xx":1,"xxxx":2,"<|turn>":3,"<":4,"|":5,"<|":6,
         "turn>":7},"merges":["x x","xx xx","< |"]}})",
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"post_processor":null,
         "model":{"type":"BPE","vocab":{"a":0},"merges":[],"ignore_merges":false}})"};
}
