#include "engine/engine.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/error.h"
#include "engine/shared_prefix.h"

namespace slip::engine {
namespace {

int context_of(const backend::Backend& backend, const EngineOptions& options) {
  const int most = backend.config().max_positions;
  if (options.context < 0 || options.context > most) {
    fail_usage("the context must lie between 1 and {} tokens, the length this model was made for, not {}",
               most, options.context);
  }
  return options.context == 0 ? most : options.context;
}

Scheduler::Limits limits_of(const backend::Backend& backend, const kv::Layout& layout,
                            const EngineOptions& options) {
  if (options.sequences < 1)
    fail_usage("at least one sequence must be allowed to run, not {}", options.sequences);
  if (options.step_rows < 0) fail_usage("the rows of a step must be positive, not {}", options.step_rows);
  if (options.draft_sequences < 0)
    fail_usage("the sequences up to which guesses are made must be positive, not {}",
               options.draft_sequences);
  if (options.mixed_prompt_rows < 1) {
    fail_usage("the prompt rows of a mixed step must be at least 1, not {}", options.mixed_prompt_rows);
  }
  const int most = backend.max_rows();
  const int rows = options.step_rows == 0 ? most : std::min(options.step_rows, most);
  return {.step_rows = rows,
          .sequence_rows = std::min(rows, layout.max_step_rows()),
          .sequences = std::min(options.sequences, rows),
          .guesses = speculate::kMostDepth};
}

std::vector<const kv::Layout*> layouts_of(const backend::Backend& backend,
                                          const speculate::Speculator* speculator) {
  std::vector<const kv::Layout*> layouts = {&backend.kv_layout()};
  if (speculator != nullptr)
    layouts.insert(layouts.end(), speculator->layouts().begin(), speculator->layouts().end());
  return layouts;
}

kv::PagePool& with_budget(kv::PagePool& pages, size_t bytes) {
  pages.set_budget(bytes);
  return pages;
}

}  // namespace

Engine::Engine(backend::Backend& backend, const EngineOptions& options, speculate::Speculator* speculator)
    : backend_(backend),
      pages_(backend.pages()),
      context_(context_of(backend, options)),
      vocab_(backend.config().vocab),
      scheduler_(limits_of(backend, backend.kv_layout(), options)),
      speculator_(speculator),
      room_(with_budget(pages_, options.cache_bytes), backend.kv_layout(), speculator),
      reuses_prefixes_(options.prefix_cache),
      prefixes_(pages_, "", layouts_of(backend, speculator)),
      fitting_(static_cast<int>(room_.fitting(context_))),
      round_(backend, scheduler_, speculator, {options.mixed_prompt_rows, options.draft_sequences}) {
  running_.reserve(static_cast<size_t>(scheduler_.limits().sequences));
  draft_caches_.reserve(speculate::kMostDrafters);
  all_caches_.reserve(speculate::kMostDrafters + 1);
  publish_load();
}

Engine::~Engine() {
  if (speculator_ == nullptr) return;
  for (const auto& sequence : running_) speculator_->settled(sequence->id());
}

void Engine::check(const Request& request) const {
  if (request.prompt.empty())
    fail_usage("the prompt is empty; give the model at least one token to start from");
  for (const int id : request.prompt) {
    if (id < 0 || id >= vocab_) {
      fail_usage("the prompt holds token {}, but the model's ids go from 0 to {}", id, vocab_ - 1);
    }
  }
  if (request.prompt.size() >= static_cast<size_t>(context_)) {
    fail_usage(
        "the prompt has {} tokens, but with a context of {} it may have at most {}; shorten it or raise the "
        "context",
        request.prompt.size(), context_, context_ - 1);
  }
  if (request.max_tokens < 1) fail_usage("max_tokens must be at least 1, not {}", request.max_tokens);
  sample::validate(request.sampling, vocab_);
  for (const std::string& stop : request.stop_strings) {
    if (stop.empty()) fail_usage("a stop string is empty; it would match before the first token");
  }
  if (!request.stop_strings.empty() && request.reply == nullptr) {
    fail_usage("stop strings need text, but the request asks for tokens only");
  }
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    fail_usage("min_tokens must lie between 0 and max_tokens ({}), not {}", request.max_tokens,
               request.min_tokens);
  }
  if (request.prompt_logprobs > sample::kMaxTopLogprobs) {
    fail_usage("prompt_logprobs must be at most {}, not {}", sample::kMaxTopLogprobs,
               request.prompt_logprobs);
  }
  check_media(request);
  SLIP_CHECK(request.sink != nullptr);
}

void Engine::check_media(const Request& request) const {
  const Scheduler::Limits& limits = scheduler_.limits();
  int end = 0;
  for (const MediaSpan& span : request.media) {
    SLIP_CHECK(span.first >= end && span.rows >= 1 && span.soft != nullptr && span.soft->rows() >= span.rows);
    end = span.first + span.rows;
    SLIP_CHECK(end <= static_cast<int>(request.prompt.size()));
    // Beside it every other sequence has a row.
    const int most = std::min(limits.sequence_rows, limits.step_rows - limits.sequences + 1);
    if (span.both_ways && span.rows > most) {
      fail_usage(
          "an image takes {} positions, which must come in one step, but a step has room for {}; choose "
          "fewer "
          "tokens per image, or fewer sequences at a time",
          span.rows, most);
    }
  }
}

uint64_t Engine::submit(Request request) {
  check(request);
  const auto tokens = static_cast<int>(request.prompt.size());
  if (tokens >= fitting_) {
    fail(ErrorKind::kOutOfMemory,
         "{} tokens need a cache of {:.1f} MiB, but only {:.1f} MiB are set aside for caches, enough for {}; "
         "shorten the prompt or give caches more memory",
         tokens + 1, static_cast<double>(room_.needed(tokens + 1)) / 0x1p20,
         static_cast<double>(room_.budget()) / 0x1p20, fitting_);
  }
  auto sequence = std::make_unique<Sequence>(next_id_++, std::move(request),
                                             Sequence::Limits{std::min(context_, fitting_), vocab_});
  const uint64_t id = sequence->id();
  {
    const std::lock_guard lock(mutex_);
    submitted_.push_back(std::move(sequence));
  }
  const std::lock_guard lock(load_mutex_);
  ++load_.waiting;
  return id;
}

void Engine::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
}

bool Engine::step() {
  read_notes();
  admit();
  if (!running_.empty()) round_.step(running_, meter_);
  keep_prefixes();
  retire();
  take_back();
  publish_load();
  return !running_.empty() || !waiting_.empty() || notes_left();
}

Load Engine::load() const {
  const std::lock_guard lock(load_mutex_);
  return load_;
}

void Engine::publish_load() {
  const Scheduler::Limits& limits = scheduler_.limits();
  Load load{.running = running(),
            .waiting = waiting(),
            .sequences = limits.sequences,
            .cache_bytes = room_.budget(),
            .free_bytes = room_.available(),
            .prompt_rate = meter_.prompt_rate(),
            .decode_rate = meter_.decode_rate(),
            .sizes = meter_.sizes(),
            .preempted = preempted_};
  const kv::PrefixCache::Counts counts = prefixes_.counts();
  load.prefix_asked = static_cast<uint64_t>(counts.asked);
  load.prefix_matched = static_cast<uint64_t>(counts.matched);
  load.prefix_restored = static_cast<uint64_t>(counts.restored);
  load.prefix_bytes = counts.bytes_held_only;
  {
    const std::lock_guard lock(mutex_);
    load.waiting += static_cast<int>(submitted_.size());
  }
  const std::lock_guard lock(load_mutex_);
  load.steps = load_.steps + 1;
  load_ = load;
}

void Engine::put_aside_youngest() {
  if (running_.empty()) return;
  round_.put_aside(*running_.back());
  take_back();
}

void Engine::end_all(FinishReason reason, std::string_view error) {
  read_notes();
  for (auto& sequence : running_) sequence->finish(reason, error);
  retire();
  for (auto& sequence : waiting_) sequence->finish(reason, error);
  waiting_.clear();
  publish_load();
}

bool Engine::notes_left() {
  const std::lock_guard lock(mutex_);
  return !submitted_.empty();
}

void Engine::read_notes() {
  cancels_.clear();
  {
    const std::lock_guard lock(mutex_);
    for (auto& sequence : submitted_) waiting_.push_back(std::move(sequence));
    submitted_.clear();
    std::swap(cancels_, cancelled_);
  }
  if (cancels_.empty()) return;
  const auto is_cancelled = [&](const auto& sequence) {
    return std::find(cancels_.begin(), cancels_.end(), sequence->id()) != cancels_.end();
  };
  for (auto& sequence : running_) {
    if (is_cancelled(sequence)) sequence->finish(FinishReason::kCancelled);
  }
  retire();
  for (auto& sequence : waiting_) {
    if (is_cancelled(sequence)) sequence->finish(FinishReason::kCancelled);
  }
  std::erase_if(waiting_, [](const auto& sequence) { return sequence->finished(); });
}

bool Engine::can_begin(Sequence& sequence) {
  try {
    return sequence.ready();
  } catch (const std::exception& error) {
    sequence.fail(error);
    return false;
  }
}

// Whoever waits for an encoder keeps nobody else waiting.
void Engine::admit() {
  const auto places = static_cast<size_t>(scheduler_.limits().sequences);
  for (auto at = waiting_.begin(); at != waiting_.end() && running_.size() < places;) {
    if (!can_begin(**at)) {
      at = (*at)->finished() ? waiting_.erase(at) : at + 1;
      continue;
    }
    if (prefix_is_under_way(**at)) {
      ++at;
      continue;
    }
    if (!has_room_for(**at)) return;
    std::unique_ptr<Sequence> next = std::move(*at);
    at = waiting_.erase(at);
    const auto behind = std::find_if(running_.begin(), running_.end(),
                                     [&](const auto& sequence) { return sequence->id() > next->id(); });
    begin(**running_.insert(behind, std::move(next)));
  }
}

// What it has to read now beside what the others still have to read, and a page more of every kind for all, so that
// nobody has to give way at once.
bool Engine::has_room_for(const Sequence& sequence) {
  if (running_.empty()) return true;
  size_t needed = still_needed(sequence) + running_.size() * room_.next_pages();
  for (const auto& other : running_) needed += still_needed(*other);
  return needed <= room_.available();
}

// Bytes of pages for all tokens it has, less those it holds.
size_t Engine::still_needed(const Sequence& sequence) {
  const size_t whole =
      room_.needed(static_cast<int64_t>(sequence.tokens().size()) + 1,
                   std::min(static_cast<int>(sequence.tokens().size()), scheduler_.limits().sequence_rows));
  if (!sequence.admitted()) return whole;
  draft_caches_.clear();
  if (speculator_ != nullptr) speculator_->caches(sequence.id(), draft_caches_);
  size_t held = CacheRoom::held(*sequence.cache());
  for (const kv::Cache* cache : draft_caches_) held += cache == nullptr ? 0 : CacheRoom::held(*cache);
  return whole - std::min(whole, held);
}

void Engine::begin(Sequence& sequence) {
  try {
    if (!sequence.admitted()) sequence.admit(backend_.new_cache());
    if (speculator_ != nullptr) speculator_->begin(sequence.view());
    restore_prefix(sequence);
  } catch (const std::exception& error) {
    sequence.fail(error);
    retire();
  }
}

// Whether a sequence that is being read begins with more of the same than is there already; then that is worth waiting for.
bool Engine::prefix_is_under_way(const Sequence& sequence) const {
  if (!reuses_prefixes_) return false;
  const kv::PrefixQuery wanted = sequence.prefix_query();
  int there = -1;
  for (const auto& other : running_) {
    const kv::PrefixQuery given = other->prefix_query();
    if (!other->reading() || !(given.salt == wanted.salt)) continue;
    const int alike = shared_prefix(given.content, wanted.content);
    const int shared = std::min(alike, wanted.most / kv::kHashUnit * kv::kHashUnit);
    if (shared <= other->chain.position()) continue;
    if (there < 0) there = prefixes_.match(wanted).positions;
    if (shared > there) return true;
  }
  return false;
}

void Engine::restore_prefix(Sequence& sequence) {
  all_caches_.assign(1, sequence.cache());
  if (speculator_ != nullptr) speculator_->caches(sequence.id(), all_caches_);
  kv::PrefixQuery query = sequence.prefix_query();
  if (!reuses_prefixes_) query.most = 0;
  sequence.resume(prefixes_.adopt(sequence.chain, query, all_caches_));
  for (const int position : sequence.boundaries()) prefixes_.mark_boundary(sequence.chain, position);
  prefixes_.mark_boundary(sequence.chain, static_cast<int>(sequence.prompt_tokens()));
}

// What the step has added to the caches.
void Engine::keep_prefixes() {
  if (!reuses_prefixes_) return;
  for (const auto& sequence : running_) {
    if (sequence->aside() || !sequence->admitted()) continue;
    const int length = sequence->cache()->length();
    if (sequence->finished()) prefixes_.mark_boundary(sequence->chain, length);
    all_caches_.assign(1, sequence->cache());
    if (speculator_ != nullptr) speculator_->caches(sequence->id(), all_caches_);
    prefixes_.extend(sequence->chain, sequence->prefix_query().content, all_caches_, length);
  }
}

// Those that were put aside wait in front of all that came after them.
void Engine::take_back() {
  for (size_t i = running_.size(); i-- > 0;) {
    if (!running_[i]->aside()) continue;
    ++preempted_;
    waiting_.push_front(std::move(running_[i]));
    running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Engine::retire() {
  std::erase_if(running_, [&](const auto& sequence) {
    if (!sequence->finished()) return false;
    if (speculator_ != nullptr) speculator_->settled(sequence->id());
    return true;
  });
}

}  // namespace slip::engine
