#include "engine/sequence.h"

#include <algorithm>
#include <limits>
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

Sequence::Sequence(uint64_t id, Request request, const Limits& limits)
    : id_(id),
      request_(std::move(request)),
      context_(limits.context),
      most_tokens_(most_tokens_of(request_, limits.context)),
      prompt_tokens_(request_.prompt.size()),
      tokens_(std::move(request_.prompt)),
      text_(std::move(request_.reply), request_.stop_strings) {
  stats_.prompt_tokens = static_cast<int>(prompt_tokens_);
  for (const MediaSpan& span : request_.media) {
    stats_.media_tokens += span.rows;
    media_.push_back({.first = span.first, .rows = span.rows, .both_ways = span.both_ways, .key = span.key});
  }
  if (request_.min_tokens > 0 && !request_.stop_ids.empty()) {
    no_stop_.emplace(limits.vocab);
    no_stop_->allow_all();
    for (const int stop : request_.stop_ids) {
      if (stop >= 0 && stop < limits.vocab) no_stop_->forbid(stop);
    }
  }
}

void Sequence::admit(std::unique_ptr<kv::Cache> cache) {
  cache_ = std::move(cache);
  tokens_.reserve(static_cast<size_t>(most_tokens_));
  drafts_.reserve(static_cast<size_t>(cache_->layout().max_step_rows()));
  view_ = {.id = id_,
           .tokens = tokens_,
           .prompt_tokens = prompt_tokens_,
           .most_tokens = most_tokens_,
           .cache = cache_.get(),
           .sampling = &request_.sampling};
  admitted_ = Clock::now();
  stats_.queued_s = seconds(admitted_ - submitted_);
}

kv::PrefixQuery Sequence::prefix_query() const {
  const bool scores = request_.prompt_logprobs >= 0 && scored_ < prompt_tokens_;
  return {.salt = request_.salt,
          .content = {.tokens = tokens_, .media = media_},
          .most = scores ? 0 : static_cast<int>(tokens_.size()) - 1};
}

void Sequence::resume(const kv::Match& match) {
  aside_ = false;
  if (stats_.preempted > 0) return;
  stats_.cached_tokens = match.positions;
  stats_.matched_tokens = match.matched;
  stats_.match_end = match.end;
}

void Sequence::put_aside() {
  chain.end();
  cache_->release();
  drafts_.clear();
  aside_ = true;
  ++stats_.preempted;
}

void Sequence::end_for_lack_of_room() {
  if (sampled_ > 0) return finish(FinishReason::kContext);
  finish(FinishReason::kError,
         "the memory for caches is too small for this prompt; shorten it, or give caches more memory",
         ErrorKind::kOutOfMemory);
}

bool Sequence::ready() const {
  return std::all_of(request_.media.begin(), request_.media.end(),
                     [](const MediaSpan& span) { return span.soft->made() != nullptr; });
}

Need Sequence::need() const {
  int rows = known();
  // Rows that are scored bring all their logits, a megabyte each for a real vocabulary.
  constexpr int kMostScoredRows = 16;
  if (wants_score(cache_->length())) rows = std::min(rows, kMostScoredRows);
  const MediaSpan* media = media_at(cache_->length());
  return {.known = rows,
          .guessable = guessable(),
          .block = media != nullptr && media->both_ways ? media->rows : 1};
}

int Sequence::fit(int rows) const {
  const int first = cache_->length();
  const MediaSpan* cut = media_at(first + rows);
  if (cut != nullptr && cut->both_ways && cut->first < first + rows) rows = cut->first - first;
  SLIP_CHECK(rows >= 1);
  return rows;
}

const MediaSpan* Sequence::media_at(int position) const {
  for (const MediaSpan& span : request_.media) {
    if (position < span.first) break;
    if (position < span.first + span.rows) return &span;
  }
  return nullptr;
}

int Sequence::propose(const speculate::Guesses& guesses, int most) {
  const std::span<const int> drafts = guesses.tokens;
  // Of n tokens still wanted, n - 1 can come from drafts: the last one is sampled after them.
  const auto useful = static_cast<size_t>(most_tokens_) - tokens_.size() - 1;
  const size_t count = std::min({drafts.size(), useful, drafts_.capacity(), static_cast<size_t>(most)});
  drafts_.assign(drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(count));
  guesses_ = guesses;
  guesses_.tokens = drafts_;
  return static_cast<int>(count);
}

void Sequence::explain(const speculate::Decision& decision) {
  using Kind = speculate::Decision::Kind;
  // A round that is cut short by the end, or made to learn, says little about the text.
  const bool short_round = most_tokens_ - static_cast<int>(tokens_.size()) <= speculate::kMostDepth;
  speculate::Decision& last = stats_.speculation.decision;
  if (last.kind == Kind::kNone || !(short_round || decision.kind == Kind::kLearning)) last = decision;
}

bool Sequence::wants_output(int position) const {
  return position >= static_cast<int>(tokens_.size()) - 1 || wants_score(position);
}

// Whether the token that follows is one of the prompt whose log-probability is still to come.
bool Sequence::wants_score(int position) const {
  const auto next = static_cast<size_t>(position) + 1;
  return request_.prompt_logprobs >= 0 && next < prompt_tokens_ && next >= scored_;
}

const sample::TokenMask* Sequence::mask_at(size_t position) const {
  const bool early = position < prompt_tokens_ + static_cast<size_t>(request_.min_tokens);
  return no_stop_ && early ? &*no_stop_ : nullptr;
}

int Sequence::add_rows(int count, int index, std::vector<backend::Row>& rows) {
  const int first = cache_->length();
  SLIP_CHECK(count >= 1 && count <= known() + static_cast<int>(drafts_.size()));
  in_round_ = decoding();
  cache_->stage(count);
  int outputs = 0;
  for (int position = first; position < first + count; ++position) {
    add_text_row(position, index, rows);
    outputs += rows.back().output ? 1 : 0;
    const MediaSpan* media = media_at(position);
    if (media == nullptr) continue;
    rows.back().soft = media->soft->made();
    rows.back().soft_row = position - media->first;
    if (media->both_ways) rows.back().span_end = media->first + media->rows;
  }
  return outputs;
}

void Sequence::add_text_row(int position, int index, std::vector<backend::Row>& rows) const {
  const int known = static_cast<int>(tokens_.size());
  const bool output = wants_output(position);
  // Its token is sampled with all up to this position as its history.
  const bool sampled = output && position >= known - 1;
  rows.push_back({.token = position < known ? tokens_[static_cast<size_t>(position)]
                                            : drafts_[static_cast<size_t>(position - known)],
                  .position = position,
                  .sequence = index,
                  .output = output,
                  .candidates = sampled
                                    ? sample::candidates_needed(request_.sampling, position + 1,
                                                                static_cast<int64_t>(prompt_tokens_),
                                                                mask_at(static_cast<size_t>(position) + 1))
                                    : 0});
}

int Sequence::score_prompt(const backend::Output& output, int first, int outputs, sample::Sampler& sampler) {
  if (request_.prompt_logprobs < 0) return 0;
  if (scored_ == 0) {
    emit({.request = id_,
          .token = tokens_[0],
          .logprob = std::numeric_limits<float>::quiet_NaN(),
          .of_prompt = true});
    scored_ = 1;
  }
  // Rows that want output are the last ones.
  const int position = cache_->length() + cache_->staged() - outputs;
  int scored = 0;
  for (; scored < outputs && wants_score(position + scored); ++scored) {
    const sample::Sampled score = sampler.score(output.scores(first + scored, sampler.vocab()).logits,
                                                tokens_[scored_], request_.prompt_logprobs);
    ++scored_;
    emit({.request = id_,
          .token = score.token,
          .logprob = score.logprob,
          .top = score.top,
          .of_prompt = true});
  }
  return scored;
}

speculate::Outcome Sequence::consume(const backend::Output& output, int first, int outputs,
                                     sample::Sampler& sampler, const StepTimes& times) {
  speculate::Outcome outcome;
  try {
    const int scored = score_prompt(output, first, outputs, sampler);
    first += scored;
    outputs -= scored;
    begin_round(outputs, times);
    const auto pick = [&](int row) {
      const sample::Context context{.history = tokens_,
                                    .prompt_tokens = prompt_tokens_,
                                    .position = static_cast<int64_t>(tokens_.size()),
                                    .mask = mask_at(tokens_.size())};
      return sampler.sample(output.scores(first + row, sampler.vocab()), context, request_.sampling);
    };
    outcome =
        speculate::accept(outputs, drafts_, pick, [&](const sample::Sampled& sampled, int i, bool right) {
          add_token(sampled, i, right);
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
  if (!in_round_) return;
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
void Sequence::add_token(const sample::Sampled& sampled, int guess, bool right) {
  speculate::Statistics& statistics = stats_.speculation;
  if (in_round_) {
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
  view_.tokens = tokens_;
  ++sampled_;
  count_time();
  FinishReason reason = is_stop_id(sampled.token) ? FinishReason::kStopId : FinishReason::kNone;
  text_.begin();
  if (reason == FinishReason::kNone) {
    ++stats_.output_tokens;
    text_.push(sampled.token);
    stats_.reasoning_tokens += text_.landing().place == text::Place::kReasoning ? 1 : 0;
    reason = text_.stopped() ? FinishReason::kStopString : reason_to_stop();
  }
  if (reason != FinishReason::kNone) text_.finish();
  emit({.request = id_,
        .token = sampled.token,
        .events = text_.events(),
        .landing = text_.landing(),
        .logprob = sampled.logprob,
        .top = sampled.top,
        .finish = reason,
        .drafter = right ? guesses_.drafter_of(guess) : nullptr,
        .rejected = rejected});
}

bool Sequence::is_stop_id(int token) const {
  const auto& stops = request_.stop_ids;
  return std::find(stops.begin(), stops.end(), token) != stops.end();
}

FinishReason Sequence::reason_to_stop() const {
  if (sampled_ >= request_.max_tokens) return FinishReason::kMaxTokens;
  if (tokens_.size() >= static_cast<size_t>(context_)) return FinishReason::kContext;
  return FinishReason::kNone;
}

void Sequence::finish(FinishReason reason, std::string_view error, ErrorKind kind) {
  if (finished_) return;
  text_.begin();
  text_.finish();
  emit({.request = id_,
        .events = text_.events(),
        .landing = text_.landing(),
        .finish = reason,
        .error = error,
        .error_kind = kind});
}

void Sequence::fail(const std::exception& error) {
  ErrorKind kind = ErrorKind::kRuntime;
  if (const auto* ours = dynamic_cast<const Error*>(&error)) kind = ours->kind();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) kind = ErrorKind::kOutOfMemory;
  finish(FinishReason::kError, error.what(), kind);
}

void Sequence::emit(Delta delta) {
  delta.choice = request_.choice;
  if (delta.finish != FinishReason::kNone) {
    finished_ = true;
    delta.stats = &stats_;
  }
  request_.sink(delta);
}

void Sequence::count_time() {
  const auto now = Clock::now();
  if (sampled_ == 1) {
    first_token_ = now;
    stats_.first_token_s = seconds(now - submitted_);
    stats_.prompt_s = seconds(now - admitted_);
  }
  stats_.decode_s = seconds(now - first_token_);
  stats_.decoded_tokens = sampled_ - 1;
}

}  // namespace slip::engine
