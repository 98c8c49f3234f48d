// ReplySink: who gets a reply while it is written: a terminal, a library user, a server's stream. Reply: the sink
// that keeps all of it.
//
// Deltas come in order, one per token, and the last one says why the reply ended. Which thread calls is the
// submitter's choice: Model::generate() calls on its caller's, Model::submit() on the engine's, which must never
// wait there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"

namespace slip::session {

class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void on_delta(const engine::Delta& delta) = 0;
};

/// What was written, kept.
class Reply final : public ReplySink {
 public:
  struct TokenRecord {
    int id = 0;
    float logprob = 0;
    std::vector<sample::TokenLogprob> top = {};
    std::string drafter = {};  // who guessed it; empty = the model's own
    engine::Landing landing = {};
  };

  void on_delta(const engine::Delta& delta) override;

  std::string text, reasoning;
  std::vector<text::ReplyEvent> calls;
  std::vector<int> tokens;
  std::vector<TokenRecord> prompt, records;  // records: filled when asked for
  bool keep_records = false;
  engine::FinishReason finish = engine::FinishReason::kNone;
  std::string error;
  ErrorKind error_kind = ErrorKind::kRuntime;
  engine::Stats stats;

  bool done() const { return finish != engine::FinishReason::kNone; }
  /// Throws what ended it, if that was an error.
  void require_success() const;
};

}  // namespace slip::session
