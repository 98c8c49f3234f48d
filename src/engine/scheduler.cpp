#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace slip::engine {
namespace {

bool decoding(const Need& need) {
  return need.known == 1;
}

// One row each for the decoding, as many as may be, from `first` on; returns how many there are.
int grant_decode(std::span<const Need> needs, std::span<int> rows, const Budget& budget) {
  const size_t count = needs.size();
  std::fill(rows.begin(), rows.end(), 0);
  int taken = 0;
  for (size_t i = 0; i < count && taken < std::max(budget.decodes, 1); ++i) {
    const size_t at = (budget.first + i) % count;
    if (!decoding(needs[at])) continue;
    rows[at] = 1;
    ++taken;
  }
  return taken;
}

// The first rows of every prompt, as many as cannot be parted. One block may take more than prompts have in a
// step: it would never come otherwise.
int grant_first_rows(std::span<const Need> needs, std::span<int> rows, int prompt_rows, int room) {
  int taken = 0;
  for (size_t i = 0; i < needs.size(); ++i) {
    if (decoding(needs[i]) || needs[i].block > 1) continue;
    rows[i] = 1;
    ++taken;
  }
  bool one = false;
  for (size_t i = 0; i < needs.size(); ++i) {
    const int block = needs[i].block;
    if (block <= 1 || taken + block > (one ? prompt_rows : room)) continue;
    rows[i] = block;
    taken += block;
    one = true;
  }
  return taken;
}

void share_rest(std::span<const Need> needs, std::span<int> rows, int budget, int sequence_rows) {
  const auto open = [&](size_t i) {
    return decoding(needs[i]) || rows[i] == 0 ? 0 : std::min(needs[i].known, sequence_rows) - rows[i];
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
  SLIP_CHECK(limits.step_rows >= 1 && limits.sequence_rows >= 1);
  SLIP_CHECK(limits.sequences >= 1 && limits.sequences <= limits.step_rows);
}

void Scheduler::grant(std::span<const Need> needs, const Budget& budget, Grant& grant) const {
  SLIP_CHECK(needs.size() == grant.rows.size() && needs.size() <= static_cast<size_t>(limits_.sequences));
  const int decodes = grant_decode(needs, grant.rows, budget);
  const int left = limits_.step_rows - decodes;
  int guessable = 0, prompts = 0, block = 1;
  for (size_t i = 0; i < needs.size(); ++i) {
    guessable += needs[i].guessable && grant.rows[i] > 0 ? 1 : 0;
    if (decoding(needs[i]) || (decodes > 0 && budget.prompt_rows == 0)) continue;
    ++prompts;
    block = std::max(block, needs[i].block);
  }
  // Guesses are a bet; where prompts wait they may take half of the room, and never a prompt's first rows.
  const int room = prompts == 0 ? left : std::max(0, std::min(left / 2, left - prompts - (block - 1)));
  grant.guesses = std::min(room, guessable * std::min(limits_.sequence_rows - 1, limits_.guesses));
  if (prompts == 0) return;
  const int rest = left - grant.guesses;
  const int prompt_rows = decodes == 0 ? rest : std::min(rest, std::max(budget.prompt_rows, prompts));
  const int first = grant_first_rows(needs, grant.rows, prompt_rows, rest);
  share_rest(needs, grant.rows, prompt_rows - first, limits_.sequence_rows);
}

}  // namespace slip::engine
