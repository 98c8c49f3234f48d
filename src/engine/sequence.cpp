#include "engine/sequence.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "sample/candidates.h"

namespace slip::engine {
namespace {

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

int most_tokens_of(const Request& request, int context) {
  const auto most = static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  return static_cast<int>(std::min<int64_t>(most, context));
}

}  // namespace

Sequence::Sequence(uint64_t id, Request request, int context)
    : id_(id),
      request_(std::move(request)),
      context_(context),
      most_tokens_(most_tokens_of(request_, context)),
      prompt_tokens_(request_.prompt.size()),
      tokens_(std::move(request_.prompt)),
      matcher_(request_.stop_strings) {
  stats_.prompt_tokens = static_cast<int>(prompt_tokens_);
}

void Sequence::admit(std::unique_ptr<kv::Cache> cache) {
  cache_ = std::move(cache);
  cache_->reserve(most_tokens_);
  tokens_.reserve(static_cast<size_t>(most_tokens_));
  drafts_.reserve(static_cast<size_t>(cache_->layout().max_step_rows()));
  subject_ = {.id = id_,
              .tokens = &tokens_,
              .prompt_tokens = prompt_tokens_,
              .most_tokens = most_tokens_,
              .cache = cache_.get(),
              .sampling = &request_.sampling};
  piece_.reserve(1024);
  text_.reserve(1024);
  admitted_ = Clock::now();
  stats_.queued_s = seconds(admitted_ - submitted_);
}

Need Sequence::need() const {
  return {.known = static_cast<int>(tokens_.size()) - cache_->length(),
          .drafts = static_cast<int>(drafts_.size())};
}

void Sequence::propose(const speculate::Guesses& guesses) {
  const std::span<const int> drafts = guesses.tokens;
  // Of n tokens still wanted, n - 1 can come from drafts: the last one is sampled after them.
  const auto useful = static_cast<size_t>(most_tokens_) - tokens_.size() - 1;
  const size_t count = std::min({drafts.size(), useful, drafts_.capacity()});
  drafts_.assign(drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(count));
  guesses_ = guesses;
  guesses_.tokens = drafts_;
}

void Sequence::explain(const speculate::Verdict& verdict) {
  using Kind = speculate::Verdict::Kind;
  // A round that is cut short by the end, or made to learn, says little about the text.
  const bool short_round = most_tokens_ - static_cast<int>(tokens_.size()) <= speculate::kMostDepth;
  speculate::Verdict& last = stats_.speculation.verdict;
  if (last.kind == Kind::kNone || !(short_round || verdict.kind == Kind::kLearning)) last = verdict;
}

int Sequence::add_rows(int count, int index, std::vector<backend::Row>& rows) {
  const int first = cache_->length();
  const int known = static_cast<int>(tokens_.size());
  SLIP_CHECK(count >= 1 && first + count <= known + static_cast<int>(drafts_.size()));
  cache_->stage(count);
  int outputs = 0;
  for (int position = first; position < first + count; ++position) {
    const bool output = position >= known - 1;
    const int token = position < known ? tokens_[static_cast<size_t>(position)]
                                       : drafts_[static_cast<size_t>(position - known)];
    // Its token is sampled with all up to this position as its history.
    const int candidates = output ? sample::candidates_needed(request_.sampling, position + 1,
                                                              static_cast<int64_t>(prompt_tokens_))
                                  : 0;
    rows.push_back({.token = token,
                    .position = position,
                    .sequence = index,
                    .output = output,
                    .candidates = candidates});
    outputs += output ? 1 : 0;
  }
  return outputs;
}

speculate::Outcome Sequence::consume(const backend::Output& output, int first, int outputs,
                                     sample::Sampler& sampler, const StepTimes& times) {
  begin_round(outputs, times);
  const auto pick = [&](int row) {
    const sample::Context context{.history = tokens_,
                                  .prompt_tokens = prompt_tokens_,
                                  .position = static_cast<int64_t>(tokens_.size())};
    return sampler.sample(output.scores(first + row, sampler.vocab()), context, request_.sampling);
  };
  speculate::Outcome outcome;
  try {
    outcome =
        speculate::accept(outputs, drafts_, pick, [&](const sample::Sampled& sampled, int i, bool right) {
          take(sampled, i, right);
          return !finished_;
        });
  } catch (const std::exception& error) {
    fail(error);
  }
  // Known tokens among the rows stand in any case.
  cache_->commit(cache_->staged() - std::max(outputs - 1, 0) + outcome.kept_rows);
  drafts_.clear();
  return outcome;
}

void Sequence::begin_round(int outputs, const StepTimes& times) {
  times_ = times;
  // The scheduler may have granted fewer rows than there were guesses.
  drafts_.resize(static_cast<size_t>(std::max(outputs - 1, 0)));
  if (!decoding()) return;
  speculate::Statistics& statistics = stats_.speculation;
  ++statistics.rounds;
  statistics.draft_s += times.draft_s;
  statistics.verify_s += times.pass_s;
  if (times.plain_s > 0) statistics.compared_s += times.draft_s + times.pass_s;
  if (drafts_.empty()) return;
  ++statistics.of(guesses_.by).rounds;
  if (static_cast<int>(drafts_.size()) > guesses_.own) ++statistics.of(guesses_.then).rounds;
}

// Token `guess` of the round, by the model; `right`: the guess in its place was the same.
void Sequence::take(const sample::Sampled& sampled, int guess, bool right) {
  speculate::Statistics& statistics = stats_.speculation;
  if (decoding()) {
    ++statistics.committed;
    statistics.plain_s += times_.plain_s;
  }
  const auto place = static_cast<size_t>(guess);
  const std::span<const int> rejected = right ? std::span<const int>() : std::span(drafts_).subspan(place);
  if (right) statistics.count(guess, guesses_.drafter_of(guess), true);
  for (size_t i = 0; i < rejected.size(); ++i) {
    const int at = guess + static_cast<int>(i);
    statistics.count(at, guesses_.drafter_of(at), false);
  }

  tokens_.push_back(sampled.token);
  count_token();
  text_.clear();
  FinishReason reason = reason_to_stop(sampled.token);
  if (request_.text != nullptr && reason != FinishReason::kStopId) {
    piece_.clear();
    request_.text->push(sampled.token, piece_);
    text_ += matcher_.push(piece_);
    if (matcher_.matched()) reason = FinishReason::kStopString;
  }
  if (reason != FinishReason::kNone) close_text();
  emit({.request = id_,
        .token = sampled.token,
        .text = text_,
        .logprob = sampled.logprob,
        .top = sampled.top,
        .finish = reason,
        .drafter = right ? guesses_.drafter_of(guess) : nullptr,
        .rejected = rejected});
}

FinishReason Sequence::reason_to_stop(int token) const {
  const auto& stops = request_.stop_ids;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return FinishReason::kStopId;
  if (stats_.output_tokens >= request_.max_tokens) return FinishReason::kMaxTokens;
  if (tokens_.size() >= static_cast<size_t>(context_)) return FinishReason::kContext;
  return FinishReason::kNone;
}

void Sequence::finish(FinishReason reason, std::string_view error, ErrorKind kind) {
  if (finished_) return;
  text_.clear();
  close_text();
  emit({.request = id_, .text = text_, .finish = reason, .error = error, .error_kind = kind});
}

void Sequence::fail(const std::exception& error) {
  ErrorKind kind = ErrorKind::kRuntime;
  if (const auto* ours = dynamic_cast<const Error*>(&error)) kind = ours->kind();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) kind = ErrorKind::kOutOfMemory;
  finish(FinishReason::kError, error.what(), kind);
}

void Sequence::close_text() {
  if (request_.text == nullptr || matcher_.matched()) return;
  piece_.clear();
  request_.text->finish(piece_);
  text_ += matcher_.push(piece_);
  if (!matcher_.matched()) text_ += matcher_.finish();
}

void Sequence::emit(Delta delta) {
  if (delta.finish != FinishReason::kNone) {
    finished_ = true;
    delta.stats = &stats_;
  }
  request_.sink(delta);
}

void Sequence::count_token() {
  const auto now = Clock::now();
  if (stats_.output_tokens++ == 0) {
    first_token_ = now;
    stats_.first_token_s = seconds(now - submitted_);
    stats_.prompt_s = seconds(now - admitted_);
  }
  stats_.decode_s = seconds(now - first_token_);
}

}  // namespace slip::engine
