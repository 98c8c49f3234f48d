#include "engine/decoded_text.h"

namespace slip::engine {
namespace {

class DecodedText final : public ReplyStream {
 public:
  DecodedText(const text::Tokenizer& tokenizer, text::DecodeOptions options) : decoder_(tokenizer, options) {}
  void push(int token, std::vector<text::ReplyEvent>& out) override {
    piece_.clear();
    decoder_.feed(token, piece_);
    give(out);
  }
  void finish(std::vector<text::ReplyEvent>& out) override {
    piece_.clear();
    decoder_.finish(piece_);
    give(out);
  }

 private:
  void give(std::vector<text::ReplyEvent>& out) const {
    if (!piece_.empty()) out.push_back({.kind = text::ReplyEvent::Kind::kText, .text = piece_});
  }

  text::StreamDecoder decoder_;
  std::string piece_;
};

}  // namespace

std::unique_ptr<ReplyStream> decoded_text(const text::Tokenizer& tokenizer, text::DecodeOptions options) {
  return std::make_unique<DecodedText>(tokenizer, options);
}

}  // namespace slip::engine
