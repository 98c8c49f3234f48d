#include "cli/commands/answer_printer.h"

#include <fmt/format.h>

#include <utility>

#include "cli/terminal/draft_colours.h"
#include "cli/terminal/output.h"

namespace slip::cli {

using nlohmann::ordered_json;

AnswerPrinter::AnswerPrinter(const GenerateOptions& options, const text::Tokenizer* tokenizer)
    : options_(options),
      tokenizer_(tokenizer),
      painted_(options.show_drafts && stdout_is_terminal()),
      printer_({.terminal = stdout_is_terminal(),
                .thinking = shows_thinking(options.conversation, stdout_is_terminal())}) {
  reply_.keep_records = options.sampling.logprobs.has_value();
}

void AnswerPrinter::on_delta(const engine::Delta& delta) {
  reply_.on_delta(delta);
  if (options_.json) return;
  if (options_.ids) {
    print_id(delta);
  } else {
    print(delta);
  }
}

void AnswerPrinter::end() {
  if (!options_.json) write_out(printer_.end());
  reply_.require_success();
}

ordered_json AnswerPrinter::json() const {
  ordered_json out = ordered_json::object();
  if (!options_.ids) out["text"] = reply_.text;
  if (!reply_.reasoning.empty()) out["reasoning"] = reply_.reasoning;
  for (const text::ReplyEvent& call : reply_.calls)
    out["tool_calls"].push_back({{"name", call.name}, {"arguments", ordered_json::parse(call.arguments)}});
  out["tokens"] = reply_.tokens;
  out["finish_reason"] = engine::name_of(reply_.finish);
  if (options_.sampling.logprobs) out["logprobs"] = logprobs_json();
  return out;
}

void AnswerPrinter::print(const engine::Delta& delta) {
  ReplyPrinter::Paint paint;
  if (painted_) {
    paint = [&, first = true](std::string_view text) mutable {
      return painted_text(delta, text, std::exchange(first, false));
    };
  }
  const std::string text = printer_.print(delta.events, paint);
  if (!text.empty()) write_out(text);
}

void AnswerPrinter::print_id(const engine::Delta& delta) {
  if (delta.token < 0) return;
  const std::string id = fmt::format("{}{}", reply_.tokens.size() > 1 ? " " : "", delta.token);
  write_out(painted_ ? painted_text(delta, id, true) : id);
}

std::string AnswerPrinter::painted_text(const engine::Delta& delta, std::string_view text,
                                        bool with_rejected) const {
  if (!options_.verbose || !with_rejected) return painted(delta, text, {});
  return painted(delta, text, [this](int token) {
    if (tokenizer_ == nullptr) return fmt::format(" {}", token);
    return tokenizer_->decode({&token, 1});
  });
}

ordered_json AnswerPrinter::logprobs_json() const {
  ordered_json list = ordered_json::array();
  for (const session::Reply::TokenRecord& record : reply_.records) {
    ordered_json entry = token_json(record.id, record.logprob);
    entry["top"] = ordered_json::array();
    for (const sample::TokenLogprob& other : record.top)
      entry["top"].push_back(token_json(other.id, other.logprob));
    list.push_back(std::move(entry));
  }
  return list;
}

ordered_json AnswerPrinter::token_json(int id, float logprob) const {
  ordered_json out = {{"id", id}, {"logprob", logprob}};
  if (tokenizer_ != nullptr && id < tokenizer_->vocab_size()) out["piece"] = tokenizer_->piece(id);
  return out;
}

}  // namespace slip::cli
