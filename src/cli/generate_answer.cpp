#include "cli/generate_answer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/draft_colours.h"
#include "cli/output.h"
#include "engine/decoded_text.h"

namespace slip::cli {

using nlohmann::ordered_json;
using text::ReplyEvent;

Answer::Answer(const GenerateOptions& options, const text::Tokenizer* tokenizer, bool chat)
    : options_(options),
      tokenizer_(tokenizer),
      chat_(chat),
      painted_(options.show_drafts && stdout_is_terminal()),
      printer_({.terminal = stdout_is_terminal(),
                .thinking = shows_thinking(options.conversation, stdout_is_terminal())}) {}

std::unique_ptr<engine::TextStream> Answer::stream() {
  if (tokenizer_ == nullptr) return nullptr;
  return chat_ ? reply_.stream(*tokenizer_) : engine::decoded_text(*tokenizer_, {.skip_specials = true});
}

void Answer::take(const engine::Delta& delta) {
  try {
    if (delta.token >= 0) tokens_.push_back(delta.token);
    const ReplyEvent plain{ReplyEvent::Kind::kAnswer, std::string(delta.text)};
    const std::span<const ReplyEvent> events = chat_ ? reply_.take(delta) : std::span(&plain, 1);
    if (options_.json) {
      if (!chat_) text_ += delta.text;
      keep_logprobs(delta);
    } else if (options_.ids) {
      print_id(delta);
    } else {
      print(delta, events);
    }
  } catch (...) {
    failure_ = std::current_exception();
  }
  finish_ = delta.finish;
  if (delta.stats != nullptr) stats_ = *delta.stats;
  error_ = delta.error;
  error_kind_ = delta.error_kind;
}

void Answer::end() {
  if (failure_) std::rethrow_exception(failure_);
  if (!options_.json) write_out(printer_.end());
  if (finish_ == engine::FinishReason::kError) fail(error_kind_, "{}", error_);
}

ordered_json Answer::json() const {
  ordered_json out = {{"text", chat_ ? reply_.answer() : text_}};
  if (options_.ids) out.erase("text");
  if (!reply_.reasoning().empty()) out["reasoning"] = reply_.reasoning();
  for (const ReplyEvent& call : reply_.calls())
    out["tool_calls"].push_back({{"name", call.name}, {"arguments", call.arguments}});
  out["tokens"] = tokens_;
  out["finish_reason"] = engine::name_of(finish_);
  if (options_.sampling.logprobs) out["logprobs"] = logprobs_;
  return out;
}

void Answer::print(const engine::Delta& delta, std::span<const ReplyEvent> events) {
  ReplyPrinter::Paint paint;
  if (painted_) {
    paint = [&, first = true](std::string_view text) mutable {
      return painted_text(delta, text, std::exchange(first, false));
    };
  }
  const std::string text = printer_.print(events, paint);
  if (!text.empty()) write_out(text);
}

void Answer::print_id(const engine::Delta& delta) {
  if (delta.token < 0) return;
  const std::string id = fmt::format("{}{}", tokens_.size() > 1 ? " " : "", delta.token);
  write_out(painted_ ? painted_text(delta, id, true) : id);
}

std::string Answer::painted_text(const engine::Delta& delta, std::string_view text,
                                 bool with_rejected) const {
  if (!options_.verbose || !with_rejected) return painted(delta, text, {});
  return painted(delta, text, [this](int token) {
    if (tokenizer_ == nullptr) return fmt::format(" {}", token);
    return tokenizer_->decode({&token, 1});
  });
}

void Answer::keep_logprobs(const engine::Delta& delta) {
  if (!options_.sampling.logprobs || delta.token < 0) return;
  ordered_json entry = token_json(delta.token, delta.logprob);
  entry["top"] = ordered_json::array();
  for (const sample::TokenLogprob& other : delta.top)
    entry["top"].push_back(token_json(other.id, other.logprob));
  logprobs_.push_back(std::move(entry));
}

ordered_json Answer::token_json(int id, float logprob) const {
  ordered_json out = {{"id", id}, {"logprob", logprob}};
  if (tokenizer_ != nullptr && id < tokenizer_->vocab_size()) out["piece"] = tokenizer_->piece(id);
  return out;
}

}  // namespace slip::cli
