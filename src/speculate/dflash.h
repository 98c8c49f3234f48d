// DflashDrafter: z-lab's block drafter (model/dflash.h). It reads what layers of the target put out (taps) at
// every position in the target's cache, keeps its own cache of that, and guesses a whole block in one pass.
//
// The taps of kept rows wait in a buffer until the next proposal, or until the buffer is full: so while the
// drafter is not asked, it reads its weights once per kWaitingRows tokens, not once per token.
//
// Memory per sequence: a cache of the drafter's layers and kWaitingRows rows of taps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/drafting.h"
#include "sample/sampler.h"
#include "speculate/drafter.h"

namespace slip::speculate {

class DflashDrafter final : public Drafter {
 public:
  static constexpr int kWaitingRows = 32;

  /// The block drafter must outlive this.
  explicit DflashDrafter(backend::BlockDrafter& network);

  const char* name() const override { return "dflash"; }
  Effort effort() const override { return Effort::kBlock; }
  int most_drafts() const override;
  const kv::Layout* layout() const override { return &network_.kv_layout(); }
  kv::Cache* cache(uint64_t id) override;
  size_t tap_floats() const override { return taps_; }

  void begin(const SequenceView& view) override;
  void propose(std::span<Proposal> proposals) override;
  void committed(const SequenceView& view, const Pass& pass) override;
  void settled(uint64_t id) override { states_.erase(id); }

 private:
  struct State {
    std::unique_ptr<kv::Cache> cache;  // of the drafter
    std::vector<float> waiting;        // [waiting rows, taps * hidden]
    int waiting_count = 0;
    bool lost = false;         // there was no page for its context
    sample::Options sampling;  // the request's, without logprobs
  };
  struct Job {
    Proposal* proposal;
    State* state;
  };

  void store_waiting();
  void store(State& state, const float* taps, int count);
  void draw_batch(std::span<const Job> jobs);
  void draw(const Job& job, const backend::Output& output, int first);

  backend::BlockDrafter& network_;
  const size_t taps_;  // floats per row
  const int waiting_rows_;
  sample::Sampler sampler_;
  std::unordered_map<uint64_t, State> states_;
  std::vector<Job> jobs_;
  std::vector<backend::Block> blocks_;
  std::vector<backend::ContextRows> contexts_;
};

}  // namespace slip::speculate
