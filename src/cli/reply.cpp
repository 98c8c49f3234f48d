#include "cli/reply.h"

#include <algorithm>
#include <utility>

#include "text/detokenizer.h"

namespace slip::cli {

using text::ReplyEvent;

class Reply::Stream final : public engine::TextStream {
 public:
  Stream(const text::Tokenizer& tokenizer, std::deque<Aside>& asides)
      : decoder_(tokenizer), parser_(text::ReplyTokens::of(tokenizer)), asides_(asides) {}

  void push(int token, std::string& out) override {
    piece_.clear();
    decoder_.feed(token, piece_);
    parser_.feed({token, piece_}, events_);
    sort(out);
  }
  void finish(std::string& out) override {
    piece_.clear();
    decoder_.finish(piece_);
    parser_.feed({-1, piece_}, events_);
    parser_.finish(events_);
    sort(out);
  }

 private:
  void sort(std::string& out) {
    for (ReplyEvent& event : events_) {
      if (event.kind == ReplyEvent::Kind::kAnswer) {
        answered_ += event.text.size();
        out += event.text;
      } else {
        asides_.push_back({answered_, std::move(event)});
      }
    }
    events_.clear();
  }

  text::StreamDecoder decoder_;
  text::ReplyParser parser_;
  std::deque<Aside>& asides_;
  std::vector<ReplyEvent> events_;
  std::string piece_;
  size_t answered_ = 0;
};

std::unique_ptr<engine::TextStream> Reply::stream(const text::Tokenizer& tokenizer) {
  return std::make_unique<Stream>(tokenizer, asides_);
}

std::span<const ReplyEvent> Reply::take(const engine::Delta& delta) {
  events_.clear();
  std::string_view text = delta.text;
  while (!asides_.empty() && asides_.front().at <= answer_.size() + text.size()) {
    const size_t before = asides_.front().at - std::min(asides_.front().at, answer_.size());
    give_answer(text.substr(0, before));
    text.remove_prefix(before);
    give(std::move(asides_.front().event));
    asides_.pop_front();
  }
  give_answer(text);
  // What stands behind a stop string is no part of the reply.
  if (delta.finish == engine::FinishReason::kStopString) asides_.clear();
  return events_;
}

void Reply::give_answer(std::string_view text) {
  if (!text.empty()) give({ReplyEvent::Kind::kAnswer, std::string(text)});
}

void Reply::give(ReplyEvent event) {
  switch (event.kind) {
    case ReplyEvent::Kind::kAnswer: answer_ += event.text; break;
    case ReplyEvent::Kind::kReasoning: reasoning_ += event.text; break;
    case ReplyEvent::Kind::kToolCall: calls_.push_back(event); break;
  }
  events_.push_back(std::move(event));
}

}  // namespace slip::cli
