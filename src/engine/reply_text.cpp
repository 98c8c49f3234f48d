#include "engine/reply_text.h"

namespace slip::engine {

using text::Place;
using text::ReplyEvent;
using Kind = ReplyEvent::Kind;

ReplyText::ReplyText(std::unique_ptr<ReplyStream> stream, std::vector<std::string> stops)
    : stream_(std::move(stream)), matcher_(std::move(stops)) {
  raw_.reserve(4);
  events_.reserve(4);
}

void ReplyText::begin() {
  events_.clear();
  landing_ = {};
}

void ReplyText::push(int token) {
  if (stream_ == nullptr || matcher_.matched()) return;
  raw_.clear();
  stream_->push(token, raw_);
  const Place place = stream_->place();
  landing_ = {.place = place, .call = place == Place::kToolCall ? calls_ : -1};
  pass_on(/*last=*/false);
  if (place != Place::kText && !matcher_.matched()) release(matcher_.flush());
}

void ReplyText::finish() {
  if (stream_ == nullptr || matcher_.matched()) return;
  raw_.clear();
  stream_->finish(raw_);
  pass_on(/*last=*/true);
}

void ReplyText::pass_on(bool last) {
  for (ReplyEvent& event : raw_) {
    if (event.kind == Kind::kText) {
      release(matcher_.push(event.text));
      if (matcher_.matched()) return;
      continue;
    }
    release(matcher_.flush());
    if (event.kind == Kind::kToolCall) {
      if (landing_.bytes == 0) landing_ = {.place = Place::kToolCall, .call = calls_};
      ++calls_;
    } else {
      land(Place::kReasoning, event.text.size());
    }
    events_.push_back(std::move(event));
  }
  if (last) release(matcher_.flush());
}

void ReplyText::release(std::string_view text) {
  if (text.empty()) return;
  land(Place::kText, text.size());
  if (!events_.empty() && events_.back().kind == Kind::kText) {
    events_.back().text += text;
  } else {
    events_.push_back({.kind = Kind::kText, .text = std::string(text)});
  }
}

// One token's bytes go to one place: what was held back comes out with the token that leaves the text, and such
// a token has no text of its own.
void ReplyText::land(Place place, size_t bytes) {
  if (bytes == 0) return;
  landing_.bytes = (landing_.place == place ? landing_.bytes : 0) + static_cast<int>(bytes);
  landing_.place = place;
  landing_.call = -1;
}

}  // namespace slip::engine
