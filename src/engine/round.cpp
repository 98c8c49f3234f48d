#include "engine/round.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "engine/cache_room.h"

namespace slip::engine {

Round::Round(backend::Backend& backend, const Scheduler& scheduler, speculate::Speculator* speculator,
             const Options& options)
    : backend_(backend),
      scheduler_(scheduler),
      speculator_(speculator),
      options_(options),
      sampler_(backend.config().vocab),
      cost_(backend.narrow_rows()) {
  const auto sequences = static_cast<size_t>(scheduler.limits().sequences);
  needs_.reserve(sequences);
  granted_.reserve(sequences);
  parts_.reserve(sequences);
  views_.reserve(sequences);
  caches_.reserve(sequences);
  draft_caches_.reserve(speculate::kMostDrafters);
  rows_.reserve(static_cast<size_t>(scheduler.limits().step_rows));
}

void Round::step(Running running, LoadMeter& meter) {
  grant(running);
  if (parts_.empty()) return;
  draft();
  if (run()) settle(meter);
}

void Round::grant(Running running) {
  needs_.clear();
  for (const auto& sequence : running) needs_.push_back(sequence->need());
  granted_.assign(running.size(), 0);
  Grant grant{.rows = granted_};
  scheduler_.grant(needs_, budget(running), grant);
  guesses_ = grant.guesses;
  parts_.clear();
  for (size_t i = 0; i < running.size(); ++i) {
    Sequence& sequence = *running[i];
    if (granted_[i] == 0 || sequence.aside()) continue;
    Part part{.sequence = &sequence, .known = sequence.fit(granted_[i]), .decoding = sequence.decoding()};
    if (take_pages(part, running)) parts_.push_back(part);
  }
}

// Older sequences come first, so whoever has to give way has not taken part yet. A prompt's chunk is made shorter
// before anybody is put aside.
bool Round::take_pages(Part& part, Running running) {
  constexpr int kShortChunk = 64;
  Sequence& sequence = *part.sequence;
  const int least = sequence.need().block;
  while (!grow(sequence, part.known)) {
    Sequence* younger =
        part.known > std::max(least, kShortChunk) ? nullptr : youngest_behind(sequence, running);
    if (younger != nullptr) {
      put_aside(*younger);
    } else if (part.known > least) {
      part.known = sequence.fit(std::max(least, part.known / 2));
    } else {
      const bool alone = sequence.id() == running.front()->id();
      alone ? sequence.end_for_lack_of_room() : put_aside(sequence);
      return false;
    }
  }
  return true;
}

// Pages for the next rows, in the target's cache and in those of drafters, which may lag behind it.
bool Round::grow(const Sequence& sequence, int rows) {
  if (!sequence.cache()->grow(rows)) return false;
  if (speculator_ == nullptr) return true;
  draft_caches_.clear();
  speculator_->caches(sequence.id(), draft_caches_);
  const int end = sequence.cache()->length() + rows;
  return std::all_of(draft_caches_.begin(), draft_caches_.end(), [&](kv::Cache* cache) {
    return cache == nullptr || cache->grow(end - cache->length());
  });
}

// The youngest that holds pages.
Sequence* Round::youngest_behind(const Sequence& sequence, Running running) const {
  for (size_t i = running.size(); i-- > 0;) {
    Sequence& other = *running[i];
    if (other.id() == sequence.id()) return nullptr;
    if (!other.aside() && !other.finished() && CacheRoom::held(*other.cache()) > 0) return &other;
  }
  return nullptr;
}

void Round::put_aside(Sequence& sequence) {
  if (speculator_ != nullptr) speculator_->settled(sequence.id());
  sequence.put_aside();
}

// What the step may hold by its cost. Where not all decode together, those behind the last one go first.
Budget Round::budget(Running running) {
  int decoding = 0;
  for (const Need& need : needs_) decoding += need.known == 1 ? 1 : 0;
  Budget budget;
  if (decoding > 0) budget.decodes = cost_.sequences(decoding);
  budget.prompt_rows = cost_.prompt_rows(std::min(decoding, budget.decodes), options_.mixed_prompt_rows);
  if (budget.decodes >= decoding) return budget;
  const auto behind = std::find_if(running.begin(), running.end(),
                                   [&](const auto& sequence) { return sequence->id() > turn_; });
  budget.first = behind == running.end() ? 0 : static_cast<size_t>(behind - running.begin());
  int left = budget.decodes;
  for (size_t i = 0; left > 0; ++i) {
    const size_t at = (budget.first + i) % running.size();
    if (needs_[at].known != 1) continue;
    turn_ = running[at]->id();
    --left;
  }
  return budget;
}

bool Round::crowded() const {
  if (options_.draft_sequences == 0) return false;
  const auto decoding =
      std::count_if(parts_.begin(), parts_.end(), [](const Part& part) { return part.decoding; });
  return decoding > options_.draft_sequences;
}

void Round::draft() {
  if (speculator_ == nullptr) return;
  const bool silent = crowded();
  views_.clear();
  for (const Part& part : parts_) {
    if (part.sequence->guessable() && !silent) views_.push_back(&part.sequence->view());
  }
  speculator_->propose(views_, static_cast<int>(views_.size()) + guesses_, scheduler_.limits().sequence_rows);
  size_t index = 0;
  for (Part& part : parts_) {
    if (!part.sequence->guessable() || silent) continue;
    part.guesses = part.sequence->propose(speculator_->guesses(index), guesses_);
    if (!grow(*part.sequence, part.rows())) part.guesses = 0;  // nobody gives way to guesses
    part.sequence->explain(speculator_->decision(index++));
    guesses_ -= part.guesses;
  }
}

// Whether it succeeded; else its sequences have ended.
bool Round::run() {
  rows_.clear();
  caches_.clear();
  for (Part& part : parts_) {
    part.outputs = part.sequence->add_rows(part.rows(), static_cast<int>(caches_.size()), rows_);
    caches_.push_back(part.sequence->cache());
  }
  const auto begin = std::chrono::steady_clock::now();
  try {
    const bool hidden = speculator_ != nullptr && speculator_->reads_hidden();
    output_ = backend_.run({.rows = rows_, .sequences = caches_, .hidden = hidden});
  } catch (const std::exception& error) {
    for (const Part& part : parts_) part.sequence->fail(error);
    return false;
  }
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return true;
}

StepTimes Round::times_of_step() {
  StepTimes times{.pass_s = seconds_};
  if (speculator_ == nullptr) return times;
  const int sequences = static_cast<int>(parts_.size());
  const bool decoding_only =
      std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.decoding; });
  speculator_->passed(static_cast<int>(rows_.size()), sequences, seconds_, decoding_only);
  times.draft_s = speculator_->draft_seconds();
  times.plain_s = decoding_only ? speculator_->plain_seconds(sequences) : 0;
  return times;
}

void Round::settle(LoadMeter& meter) {
  const StepTimes times = times_of_step();
  int first_row = 0, first_output = 0, prompt_rows = 0, tokens = 0, decoding = 0;
  for (const Part& part : parts_) {
    Sequence& sequence = *part.sequence;
    const size_t before = sequence.tokens().size();
    const int length = sequence.cache()->length();
    if (!part.decoding) prompt_rows += part.known;
    decoding += part.decoding ? 1 : 0;
    const speculate::Outcome outcome = sequence.consume(output_, first_output, part.outputs, sampler_, times);
    tokens += static_cast<int>(sequence.tokens().size() - before);
    if (speculator_ != nullptr) {
      speculator_->judged(sequence.view(), part.guesses, outcome);
      if (!sequence.finished()) {
        const int kept = sequence.cache()->length() - length;
        speculator_->committed(sequence.view(), pass_of(part, kept, first_row, first_output));
      }
    }
    first_row += part.rows();
    first_output += part.outputs;
  }
  SLIP_CHECK(first_output == output_.rows);
  meter.add(prompt_rows, tokens, seconds_ + times.draft_s);
  cost_.add(decoding, prompt_rows, tokens, seconds_ + times.draft_s);
}

// What drafters get to see of the rows of a sequence.
speculate::Pass Round::pass_of(const Part& part, int kept, int first_row, int first_output) const {
  speculate::Pass pass{.rows = part.rows(), .kept = kept};
  // Rows that want output are the last ones; of those, the kept come first.
  const int kept_outputs = kept - (part.rows() - part.outputs);
  const ptrdiff_t hidden = backend_.config().hidden;
  if (output_.hidden != nullptr && kept_outputs > 0)
    pass.hidden = output_.hidden + (first_output + kept_outputs - 1) * hidden;
  if (output_.taps != nullptr)
    pass.taps = output_.taps + first_row * static_cast<ptrdiff_t>(speculator_->tap_floats());
  return pass;
}

}  // namespace slip::engine
