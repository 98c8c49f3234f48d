#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace slip::engine {
namespace {

bool decoding(const Need& need) {
  return need.known == 1;
}

// One row each for the decoding; returns how many there are.
int pick_decode(std::span<const Need> needs, std::span<int> rows) {
  int taken = 0;
  for (size_t i = 0; i < needs.size(); ++i) {
    rows[i] = decoding(needs[i]) ? 1 : 0;
    taken += rows[i];
  }
  return taken;
}

int pick_drafts(std::span<const Need> needs, std::span<int> rows, int budget, int sequence_rows) {
  int taken = 0;
  for (size_t i = 0; i < needs.size(); ++i) {
    if (!decoding(needs[i])) continue;
    const int drafts = std::min({needs[i].drafts, budget - taken, sequence_rows - 1});
    rows[i] += drafts;
    taken += drafts;
  }
  return taken;
}

void pick_prompts(std::span<const Need> needs, std::span<int> rows, int budget, int sequence_rows) {
  const auto open = [&](size_t i) {
    return decoding(needs[i]) ? 0 : std::min(needs[i].known, sequence_rows) - rows[i];
  };
  while (budget > 0) {
    int hungry = 0;
    for (size_t i = 0; i < needs.size(); ++i) hungry += open(i) > 0 ? 1 : 0;
    if (hungry == 0) return;
    const int share = std::max(1, budget / hungry);
    for (size_t i = 0; i < needs.size(); ++i) {
      const int more = std::min({open(i), share, budget});
      rows[i] += more;
      budget -= more;
    }
  }
}

}  // namespace

Scheduler::Scheduler(const Limits& limits) : limits_(limits) {
  SLIP_CHECK(limits.step_rows >= 1 && limits.sequence_rows >= 1 && limits.mixed_prompt_rows >= 1);
  SLIP_CHECK(limits.sequences >= 1 && limits.sequences <= limits.step_rows);
}

bool Scheduler::admit(size_t bytes) {
  if (sequences_ == limits_.sequences || bytes > limits_.bytes - bytes_) return false;
  ++sequences_;
  bytes_ += bytes;
  return true;
}

void Scheduler::release(size_t bytes) {
  SLIP_CHECK(sequences_ > 0 && bytes <= bytes_);
  --sequences_;
  bytes_ -= bytes;
}

void Scheduler::pick(std::span<const Need> needs, std::span<int> rows) const {
  SLIP_CHECK(needs.size() == rows.size() && needs.size() <= static_cast<size_t>(limits_.sequences));
  const int decodes = pick_decode(needs, rows);
  const int prompts = static_cast<int>(needs.size()) - decodes;
  int left = limits_.step_rows - decodes;
  // Drafts are a bet; where prompts wait they may take half of the room, and never a prompt's first row.
  left -= pick_drafts(needs, rows, prompts == 0 ? left : std::min(left / 2, left - prompts),
                      limits_.sequence_rows);
  const int mixed = std::max(limits_.mixed_prompt_rows, prompts);
  pick_prompts(needs, rows, decodes == 0 ? left : std::min(left, mixed), limits_.sequence_rows);
}

}  // namespace slip::engine
