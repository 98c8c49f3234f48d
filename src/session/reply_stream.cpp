#include "session/reply_stream.h"

#include "text/detokenizer.h"
#include "text/reply_parser.h"

namespace slip::session {
namespace {

class ChatReply final : public engine::ReplyStream {
 public:
  ChatReply(const text::Tokenizer& tokenizer, bool in_thought)
      : tokenizer_(tokenizer), decoder_(tokenizer), parser_(text::ReplyTokens::of(tokenizer), in_thought) {}

  void push(int token, std::vector<text::ReplyEvent>& out) override {
    piece_.clear();
    decoder_.feed(token, piece_);
    parser_.feed({token, piece_}, out);
    const text::Place place = parser_.place();
    const bool in_call = place == text::Place::kToolCall;
    place_ = !in_call && tokenizer_.is_special(token) ? text::Place::kNone : place;
  }
  void finish(std::vector<text::ReplyEvent>& out) override {
    piece_.clear();
    decoder_.finish(piece_);
    parser_.feed({-1, piece_}, out);
    parser_.finish(out);
  }
  text::Place place() const override { return place_; }

 private:
  const text::Tokenizer& tokenizer_;
  text::StreamDecoder decoder_;
  text::ReplyParser parser_;
  text::Place place_ = text::Place::kNone;
  std::string piece_;
};

}  // namespace

std::unique_ptr<engine::ReplyStream> chat_reply_stream(const text::Tokenizer& tokenizer, bool in_thought) {
  return std::make_unique<ChatReply>(tokenizer, in_thought);
}

}  // namespace slip::session
