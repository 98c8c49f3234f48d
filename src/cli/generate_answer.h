// Answer: what `generate` does with a reply. It prints deltas as they come, or keeps them for one JSON object
// at the end.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/generate_options.h"
#include "cli/reply.h"
#include "cli/reply_printer.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace slip::cli {

class Answer {
 public:
  /// `tokenizer` may be null with --ids. `chat`: the prompt was a chat turn, so the reply is told apart.
  Answer(const GenerateOptions& options, const text::Tokenizer* tokenizer, bool chat);

  /// For Request::text; null with --ids.
  std::unique_ptr<engine::TextStream> stream();
  /// For the engine's sink, which must not throw: a failed write is kept and ends the answer.
  void take(const engine::Delta& delta);
  bool failed() const { return failure_ != nullptr; }

  /// After the last delta: rethrows what went wrong, completes the last line.
  void end();

  nlohmann::ordered_json json() const;
  const engine::Stats& stats() const { return stats_; }
  bool cancelled() const { return finish_ == engine::FinishReason::kCancelled; }
  /// Bytes of reasoning that nobody saw.
  size_t hidden() const { return options_.json ? 0 : printer_.hidden(); }

 private:
  void print(const engine::Delta& delta, std::span<const text::ReplyEvent> events);
  void print_id(const engine::Delta& delta);
  std::string painted_text(const engine::Delta& delta, std::string_view text, bool with_rejected) const;
  void keep_logprobs(const engine::Delta& delta);
  nlohmann::ordered_json token_json(int id, float logprob) const;

  const GenerateOptions& options_;
  const text::Tokenizer* tokenizer_;
  const bool chat_;
  const bool painted_;
  Reply reply_;
  ReplyPrinter printer_;
  std::string text_, error_;  // text: of a reply that is not told apart
  std::vector<int> tokens_;
  nlohmann::ordered_json logprobs_ = nlohmann::ordered_json::array();
  engine::Stats stats_;
  engine::FinishReason finish_ = engine::FinishReason::kNone;
  ErrorKind error_kind_ = ErrorKind::kRuntime;
  std::exception_ptr failure_;
};

}  // namespace slip::cli
