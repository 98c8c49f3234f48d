// AnswerPrinter: what `generate` does with a reply. It prints deltas as they come, or keeps them for one JSON
// object at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands/generate_options.h"
#include "cli/terminal/reply_printer.h"
#include "session/reply.h"
#include "text/tokenizer.h"

namespace slip::cli {

class AnswerPrinter final : public session::ReplySink {
 public:
  /// `tokenizer` may be null with --ids.
  AnswerPrinter(const GenerateOptions& options, const text::Tokenizer* tokenizer);

  void on_delta(const engine::Delta& delta) override;
  /// After the last delta: completes the last line. Throws what ended the reply, if that was an error.
  void end();

  nlohmann::ordered_json json() const;
  const session::Reply& reply() const { return reply_; }
  /// Bytes of reasoning that nobody saw.
  size_t hidden() const { return options_.json ? 0 : printer_.hidden(); }

 private:
  void print(const engine::Delta& delta);
  void print_id(const engine::Delta& delta);
  std::string painted_text(const engine::Delta& delta, std::string_view text, bool with_rejected) const;
  nlohmann::ordered_json token_json(int id, float logprob) const;
  nlohmann::ordered_json logprobs_json() const;

  const GenerateOptions& options_;
  const text::Tokenizer* tokenizer_;
  const bool painted_;
  session::Reply reply_;
  ReplyPrinter printer_;
};

}  // namespace slip::cli
