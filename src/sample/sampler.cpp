#include "sample/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "sample/candidates.h"
#include "sample/draw.h"
#include "sample/filters.h"

namespace slip::sample {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// A token that becomes impossible. NaN and +infinity stay, to be found by the scan.
float ruled_out(float value) {
  return value < std::numeric_limits<float>::infinity() ? kImpossible : value;
}

// Draws among all tokens. A block whose best token cannot win is skipped whole; in the others the hash alone
// rules out nearly every token.
int draw_from_all(const Scan& scan, Draw draw, double inverse_temperature) {
  for (int block = 0; block < scan.blocks(); ++block) {
    const uint64_t limit = draw.limit(scaled(scan.block_max(block), scan.max(), inverse_temperature));
    if (limit == 0) continue;
    for (int place = block * Scan::kBlock, end = scan.block_end(block); place < end; ++place) {
      const int id = scan.id(place);
      if (draw.passes(id, limit))
        draw.consider(scaled(scan.value(place), scan.max(), inverse_temperature), id);
    }
  }
  return draw.winner();
}

}  // namespace

Sampler::Sampler(int vocab)
    : vocab_(vocab),
      scan_(vocab),
      quantum_(vocab),
      adjusted_(static_cast<size_t>(vocab)),
      listed_(kMostCandidates),
      counts_(static_cast<size_t>(vocab)),
      candidates_(static_cast<size_t>(vocab)),
      top_(kMaxTopLogprobs) {
  seen_.reserve(static_cast<size_t>(vocab));
}

Sampled Sampler::sample(const Scores& scores, const Context& context, const Options& options) {
  SLIP_CHECK(context.prompt_tokens <= context.history.size());
  SLIP_CHECK(context.mask == nullptr || context.mask->vocab() == vocab_);
  const bool lists = scores.best != nullptr;
  if (!(lists ? read(*scores.best, context, options) : read(scores.logits, context, options))) {
    fail(ErrorKind::kRuntime,
         "the model's output at position {} holds NaN or infinity, so no token can be chosen; the weights "
         "may be damaged",
         context.position);
  }
  if (scan_.max() == kImpossible) {
    fail(ErrorKind::kRuntime,
         "no token is possible at position {}: every logit is -infinity, suppressed or masked",
         context.position);
  }
  Sampled result;
  result.token = choose(options, context.position);
  if (options.top_logprobs >= 0) {
    if (options.adjusts() || context.mask != nullptr) SLIP_CHECK(scan_.read(scores.logits));
    add_logprobs(scores.logits, options.top_logprobs, result);
  }
  return result;
}

bool Sampler::read(std::span<const float> logits, const Context& context, const Options& options) {
  SLIP_CHECK(logits.size() == static_cast<size_t>(vocab_));
  if (!options.adjusts() && context.mask == nullptr) return scan_.read(logits);
  list_size_ = -1;
  std::copy(logits.begin(), logits.end(), adjusted_.begin());
  adjust(context, options);
  return scan_.read(adjusted_);
}

// A row of the list's tokens alone, by ascending id, as the scan wants them.
bool Sampler::read(const BestTokens& list, const Context& context, const Options& options) {
  const int needed = candidates_needed(options, static_cast<int64_t>(context.length()),
                                       static_cast<int64_t>(context.prompt_tokens), context.mask);
  SLIP_CHECK(needed > 0 && list.wanted >= needed && list.count <= std::min(list.wanted, vocab_));
  if (list.all_finite == 0) return false;
  list_size_ = list.count;
  const std::span<Candidate> sorted(candidates_.data(), static_cast<size_t>(list_size_));
  std::copy_n(list.tokens, list_size_, sorted.begin());
  std::sort(sorted.begin(), sorted.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    adjusted_[i] = sorted[i].value;
    listed_[i] = sorted[i].id;
  }
  adjust(context, options);
  return scan_.read({adjusted_.data(), sorted.size()}, listed_.data());
}

// Null for a token that is not in the list: by candidates_needed() it does not matter.
float* Sampler::value_of(int id) {
  if (list_size_ < 0) return &adjusted_[static_cast<size_t>(id)];
  const auto end = listed_.begin() + list_size_;
  const auto at = std::lower_bound(listed_.begin(), end, id);
  return at != end && *at == id ? &adjusted_[static_cast<size_t>(at - listed_.begin())] : nullptr;
}

void Sampler::adjust(const Context& context, const Options& options) {
  for (const LogitBias& bias : options.logit_bias) {
    if (float* value = value_of(bias.id)) *value += bias.value;
  }
  if (options.penalises()) penalise(context, options);
  // What is ruled out comes after the penalties, which would leave -infinity as it is.
  for (const int id : options.suppressed) {
    if (float* value = value_of(id)) *value = ruled_out(*value);
  }
  if (context.mask != nullptr) forbid(*context.mask);
}

void Sampler::penalise(const Context& context, const Options& options) {
  const size_t length = context.length();
  const auto window =
      options.penalty_window < 0 ? length : std::min(length, static_cast<size_t>(options.penalty_window));
  const size_t first = length - window;
  const size_t output = std::max(first, context.prompt_tokens);
  seen_.clear();
  const auto count = [&](int id, int more) {
    SLIP_CHECK(id >= 0 && id < vocab_);
    for (const int placeholder : options.placeholders) {
      if (id == placeholder) return;
    }
    int& occurrences = counts_[static_cast<size_t>(id)];
    if (occurrences == 0) {
      occurrences = 1;
      seen_.push_back(id);
    }
    occurrences += more;
  };
  if (options.penalises_prompt()) {
    for (size_t i = first; i < output; ++i) count(context.token(i), 0);
  }
  for (size_t i = output; i < length; ++i) count(context.token(i), 1);
  for (const int id : seen_) {
    const int occurrences = std::exchange(counts_[static_cast<size_t>(id)], 0) - 1;
    float* value = value_of(id);
    if (value == nullptr) continue;
    *value = *value > 0 ? *value / options.repetition_penalty : *value * options.repetition_penalty;
    if (occurrences == 0) continue;
    *value -= static_cast<float>(occurrences) * options.frequency_penalty;
    *value -= options.presence_penalty;
  }
}

// Masks mostly have whole words of one kind: those of allowed tokens are passed over, those of forbidden ones
// are a loop that compilers turn into vectors.
void Sampler::forbid(const TokenMask& mask) {
  if (list_size_ >= 0) {
    for (int place = 0; place < list_size_; ++place) {
      float& value = adjusted_[static_cast<size_t>(place)];
      if (!mask.allows(listed_[static_cast<size_t>(place)])) value = ruled_out(value);
    }
    return;
  }
  for (size_t i = 0; i < mask.words().size(); ++i) {
    float* values = &adjusted_[i * TokenMask::kWordBits];
    const size_t count = std::min<size_t>(TokenMask::kWordBits, adjusted_.size() - i * TokenMask::kWordBits);
    uint64_t forbidden = ~mask.words()[i];
    if (forbidden == ~uint64_t{0}) {
      for (size_t bit = 0; bit < count; ++bit) values[bit] = ruled_out(values[bit]);
      continue;
    }
    for (; forbidden != 0; forbidden &= forbidden - 1) {
      const auto bit = static_cast<size_t>(std::countr_zero(forbidden));
      if (bit >= count) break;  // beyond the vocabulary
      values[bit] = ruled_out(values[bit]);
    }
  }
}

int Sampler::choose(const Options& options, int64_t position) {
  const int best = scan_.argmax();
  if (options.greedy()) return best;
  const double inverse_temperature = 1.0 / options.temperature;
  Draw draw(options.seed, position, 0.0, best);
  if (!filters(options, vocab_)) return draw_from_all(scan_, draw, inverse_temperature);
  for (const Candidate& candidate : keep(scan_, options, quantum_, candidates_)) {
    draw.consider(scaled(candidate.value, scan_.max(), inverse_temperature), candidate.id);
  }
  return draw.winner();
}

Sampled Sampler::score(std::span<const float> logits, int token, int top) {
  SLIP_CHECK(logits.size() == static_cast<size_t>(vocab_) && token >= 0 && token < vocab_);
  Sampled result{.token = token, .top = {}};
  if (!scan_.read(logits)) {
    fail(ErrorKind::kRuntime,
         "the model's output holds NaN or infinity, so nothing can be scored; the weights may be damaged");
  }
  add_logprobs(logits, top, result);
  return result;
}

void Sampler::add_logprobs(std::span<const float> logits, int top, Sampled& result) {
  const double log_sum = scan_.max() + std::log(scan_.weight_sum(1.0f, quantum_));
  const auto logprob = [&](int id) { return static_cast<float>(logits[static_cast<size_t>(id)] - log_sum); };
  result.logprob = logprob(result.token);
  if (top == 0) return;
  const std::span<Candidate> best = scan_.best(top, candidates_);
  std::sort(best.begin(), best.end(), better);
  for (size_t i = 0; i < best.size(); ++i) top_[i] = {best[i].id, logprob(best[i].id)};
  result.top = std::span<const TokenLogprob>(top_).first(best.size());
}

}  // namespace slip::sample
