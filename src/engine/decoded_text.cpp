#include "engine/decoded_text.h"

namespace slip::engine {
namespace {

class DecodedText final : public TextStream {
 public:
  DecodedText(const text::Tokenizer& tokenizer, text::DecodeOptions options) : decoder_(tokenizer, options) {}
  void push(int token, std::string& out) override { decoder_.feed(token, out); }
  void finish(std::string& out) override { decoder_.finish(out); }

 private:
  text::StreamDecoder decoder_;
};

}  // namespace

std::unique_ptr<TextStream> decoded_text(const text::Tokenizer& tokenizer, text::DecodeOptions options) {
  return std::make_unique<DecodedText>(tokenizer, options);
}

}  // namespace slip::engine
