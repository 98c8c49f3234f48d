#include "hub/download.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/json_text.h"
#include "hub/download_job.h"
#include "hub/download_stream.h"

namespace slip::hub {
namespace {

using net::Duration;
using net::Time;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kLongestPiece = 16 * kBlock;
constexpr uint64_t kMostAhead = 128 * kBlock;
constexpr uint64_t kUnmarkedPerConnection = 4 * kBlock;
constexpr uint64_t kSyncPerConnection = 2 * kBlock;
constexpr auto kSyncInterval = milliseconds(500);
constexpr auto kProgressInterval = milliseconds(200);
constexpr auto kRatePeriod = seconds(5);
constexpr auto kBodyPause = seconds(1);
constexpr int kMostTries = 5;          // without a new byte
constexpr int kMostWholeRestarts = 5;  // of a server without ranges
constexpr int kMostRateWaits = 20;
constexpr int kSlowShare = 10;  // a connection that gets less than a tenth of the median is replaced
constexpr auto kTurn = milliseconds(50);

class Downloader {
 public:
  Downloader(Api& api, Files& files, const std::vector<DownloadFile>& wanted, const DownloadOptions& options,
             Listener& listener)
      : api_(api),
        client_(api.client()),
        listener_(listener),
        connections_(std::clamp(options.connections, 1, 64)),
        piece_(std::clamp<uint64_t>(kMostAhead / 2 / static_cast<uint64_t>(connections_) / kBlock * kBlock,
                                    kBlock, kLongestPiece)),
        hasher_([this] { client_.wake(); }),
        keeper_([this] { client_.wake(); }) {
    for (const DownloadFile& file : wanted) {
      jobs_.push_back(std::make_unique<DownloadJob>(file, files, hasher_, keeper_));
      progress_.push_back({file.repository, file.file.path, file.file.size, 0, false});
    }
    for (int i = 0; i < connections_; ++i) {
      DownloadStream& stream = *streams_.emplace_back(std::make_unique<DownloadStream>());
      stream.all_jobs = &jobs_;
      stream.most_unmarked = kUnmarkedPerConnection * static_cast<uint64_t>(connections_);
      stream.fetched = &fetched_;
    }
  }
  ~Downloader() {
    for (auto& stream : streams_) {
      if (stream->running) client_.stop(stream->id);
    }
  }

  void run();

 private:
  Time now() const { return client_.clock().now(); }
  bool all_done() const {
    return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& job) { return job->done(); });
  }
  void turn();
  void assign(DownloadStream& stream);
  void start(DownloadStream& stream);
  void handle_end(DownloadStream& stream);
  void handle_fault(DownloadStream& stream);
  void handle_status(DownloadStream& stream);
  void fetch_whole(DownloadJob& job);
  void retry(DownloadStream& stream, Duration pause, const std::string& why);
  void finish_piece(DownloadStream& stream);
  void drop(DownloadStream& stream);
  void replace_slow();
  void sync_jobs(bool all);
  void resume_paused();
  void report(bool last);
  void wait();
  uint64_t ahead() const;
  /// Bytes that are marked now, or will be fetched again.
  static void forget(DownloadJob& job, uint64_t bytes) { job.unmarked -= std::min(bytes, job.unmarked); }
  [[noreturn]] void give_up(const DownloadStream& stream, const std::string& why);

  Api& api_;
  net::HttpClient& client_;
  Listener& listener_;
  const int connections_;
  const uint64_t piece_;
  uint64_t fetched_ = 0;
  DownloadJobs jobs_;
  std::vector<std::unique_ptr<DownloadStream>> streams_;
  std::vector<FileProgress> progress_;
  Time last_sync_{}, last_report_{}, last_sample_{};
  std::vector<std::pair<Time, uint64_t>> history_;  // of fetched_, for the rate
  // Last: their threads use all of the above.
  Background hasher_, keeper_;
};

uint64_t Downloader::ahead() const {
  uint64_t bytes = 0;
  for (const auto& job : jobs_) bytes += job->ahead_of_hash();
  return bytes;
}

void Downloader::give_up(const DownloadStream& stream, const std::string& why) {
  const RemoteFile& file = stream.job->wanted().file;
  fail(ErrorKind::kRuntime,
       "{}: {} cannot be downloaded from {}: {}; what came is kept, so run the command again",
       stream.job->wanted().repository, checkpoint::in_quotes(file.path), stream.url.host,
       scrub(why, api_.environment().token));
}

void Downloader::run() {
  try {
    while (!all_done()) turn();
  } catch (...) {
    // What came is worth a sync: the next run begins there.
    for (auto& stream : streams_) {
      if (stream->running) client_.stop(stream->id);
      stream->running = false;
    }
    // The first fault is the one to tell; a second one only means that less is kept.
    const auto as_far_as_it_goes = [](auto&& work) {
      try {
        work();
      } catch (const std::exception&) {
      }
    };
    as_far_as_it_goes([&] { keeper_.drain(); });
    as_far_as_it_goes([&] {
      sync_jobs(true);
      keeper_.drain();
    });
    as_far_as_it_goes([&] { hasher_.drain(); });
    as_far_as_it_goes([&] {
      for (auto& job : jobs_) job->abandon();
    });
    throw;
  }
  report(true);
}

void Downloader::turn() {
  api_.check_cancelled();
  hasher_.collect();
  keeper_.collect();
  for (auto& stream : streams_) {
    if (stream->ended) handle_end(*stream);
  }
  for (auto& job : jobs_) job->advance();
  for (auto& stream : streams_) {
    if (stream->job == nullptr) assign(*stream);
    if (stream->job != nullptr && !stream->running && !stream->ended && stream->due <= now()) start(*stream);
  }
  sync_jobs(false);
  resume_paused();
  replace_slow();
  report(false);
  wait();
}

void Downloader::assign(DownloadStream& stream) {
  const uint64_t taken = ahead();
  const uint64_t room = taken < kMostAhead ? kMostAhead - taken : 0;
  for (auto& job : jobs_) {
    if (job->whole && std::any_of(streams_.begin(), streams_.end(),
                                  [&](const auto& other) { return other->job == job.get(); })) {
      continue;  // it has its one connection
    }
    const auto piece =
        job->whole ? job->take(job->size() + kBlock, job->size() + kBlock) : job->take(piece_, room);
    if (!piece) continue;
    stream.job = job.get();
    stream.piece = *piece;
    stream.position = piece->begin;
    stream.tries = stream.rate_waits = stream.hops = 0;
    stream.detour.reset();
    stream.due = Time{};
    return;
  }
}

void Downloader::start(DownloadStream& stream) {
  DownloadJob& job = *stream.job;
  if (!job.address) {
    const net::Url address = api_.locate(job.wanted().repository, job.wanted().commit, job.wanted().file);
    if (!job.address) {
      job.address = address;
      ++job.generation;
    }
    if (stream.job == nullptr || stream.running) return;  // what happened meanwhile took its piece
  }
  stream.url = stream.detour ? *stream.detour : *job.address;
  stream.detour.reset();
  stream.generation = job.generation;
  stream.fault = ReplyFault::kNone;
  stream.error_body.clear();
  stream.reply = {};
  stream.start_position = stream.position;
  stream.asked_range = stream.position > 0 || stream.piece.end < job.size();
  net::Request request{.url = stream.url.text, .headers = api_.headers_for(stream.url)};
  if (stream.asked_range) request.range = net::ByteRange{stream.position, stream.piece.end};
  request.pace.silence = api_.environment().silence;
  request.fresh_connection = stream.fresh;
  stream.fresh = false;
  stream.running = true;
  stream.paused = false;
  stream.sample_start = now();
  stream.sample_bytes = 0;
  stream.rate = -1;
  stream.id = client_.start(request, stream);
}

void Downloader::finish_piece(DownloadStream& stream) {
  stream.job = nullptr;
}

/// Gives up what the connection was to fetch; the bytes of a block begun do not count.
void Downloader::drop(DownloadStream& stream) {
  if (stream.job == nullptr) return;
  if (stream.running) client_.stop(stream.id);
  stream.running = stream.ended = stream.paused = false;
  if (stream.position < stream.piece.end) {
    const uint64_t block_start = std::max(stream.position / kBlock * kBlock, stream.piece.begin);
    forget(*stream.job, stream.position - block_start);
    stream.job->give_back({block_start, stream.piece.end});
  }
  stream.job = nullptr;
}

void Downloader::handle_end(DownloadStream& stream) {
  stream.ended = false;
  if (stream.job == nullptr) return;
  if (stream.position > stream.start_position) stream.tries = stream.rate_waits = stream.hops = 0;
  if (stream.position == stream.piece.end && stream.fault == ReplyFault::kNone) return finish_piece(stream);
  handle_fault(stream);
}

void Downloader::handle_fault(DownloadStream& stream) {
  DownloadJob& job = *stream.job;
  const auto length = [&] {
    const std::string* text = stream.reply.find("content-length");
    const std::string* type = stream.reply.find("content-type");
    return fmt::format("the reply has {} bytes of type {}, not the {} that belong there",
                       text == nullptr ? "too many" : fit_for_message(*text),
                       type == nullptr ? "unknown" : fit_for_message(*type),
                       stream.asked_range ? stream.piece.end - stream.start_position : job.size());
  };
  switch (stream.fault) {
    case ReplyFault::kNoRanges: return fetch_whole(job);
    case ReplyFault::kWrongRange:
      job.address.reset();
      return retry(stream, kBodyPause, "the reply is another part of the file than was asked for");
    case ReplyFault::kWrongSize:
      if (++job.wrong_sizes > 1) give_up(stream, length());
      job.address.reset();
      if (stream.asked_range) return retry(stream, kBodyPause, length());
      // What came of it cannot be trusted either.
      drop(stream);
      return job.restart();
    case ReplyFault::kStatus: return handle_status(stream);
    case ReplyFault::kNone: break;
  }
  stream.fresh = true;
  using net::Outcome;
  switch (stream.end.outcome) {
    case Outcome::kNoAuthorities:
    case Outcome::kBadCertificate:
    case Outcome::kProxy:
    case Outcome::kForbidden: api_.fail_end(stream.end, stream.url);
    case Outcome::kDone: return retry(stream, kBodyPause, "the reply ended before the file did");
    case Outcome::kSilent:
    case Outcome::kTooSlow:
      // The address may lead to a server that is ill; the hub may know a better one.
      job.address.reset();
      return retry(stream, kBodyPause, stream.end.message);
    default: return retry(stream, kBodyPause, stream.end.message);
  }
}

void Downloader::handle_status(DownloadStream& stream) {
  DownloadJob& job = *stream.job;
  const int status = stream.reply.status;
  const Subject subject{job.wanted().repository, job.wanted().commit, job.wanted().file.path};
  if (is_redirect(status)) {
    // Storage that is spread over hosts sends on, each request by itself: what such an address serves may be
    // bound to the range that was asked for.
    if (++stream.hops > kMostRedirects) {
      fail(ErrorKind::kRuntime, "{}: redirects more than {} times", stream.url.shown(), kMostRedirects);
    }
    stream.detour = api_.redirect_of(stream.reply, stream.url);
    stream.due = Time{};
    return;
  }
  if (may_pass(status)) {
    const auto wait = status == 429 ? wanted_wait(stream.reply) : std::nullopt;
    if (wait && stream.rate_waits < kMostRateWaits) {
      ++stream.rate_waits;
      listener_.on_notice(
          fmt::format("the server limits how often it is asked; waiting {} s", wait->count()));
      stream.due = now() + *wait;
      return;
    }
    const auto pause = pause_before(stream.tries);
    if (!pause) api_.fail_reply(stream.reply, stream.error_body, stream.url, subject);
    return retry(stream, *pause, fmt::format("status {}", status));
  }
  if (const std::string* range = stream.reply.find("content-range"); status == 416 && range != nullptr) {
    const auto total = parse_unsatisfied_range(*range);
    if (total && *total != job.size()) {
      give_up(stream, fmt::format("its size there is {} bytes, not {}", *total, job.size()));
    }
  }
  if (stream.generation != job.generation || !job.address) {
    stream.due = Time{};  // another connection found out first, and has a new address already
    return;
  }
  // An address expires after about an hour: a new one is asked for once.
  if (++job.denials > 1) {
    if (status == 401 || status == 403 || status == 404) {
      const std::string words = fit_for_message(stream.error_body);
      if (api_.headers_for(stream.url).empty()) {
        give_up(stream, fmt::format("status {}{}{}", status, words.empty() ? "" : ": ", words));
      }
    }
    api_.fail_reply(stream.reply, stream.error_body, stream.url, subject);
  }
  job.address.reset();
  retry(stream, Duration::zero(), fmt::format("status {}", status));
}

/// The server knows no ranges: one connection fetches the file from its start.
void Downloader::fetch_whole(DownloadJob& job) {
  for (auto& stream : streams_) {
    if (stream->job == &job) drop(*stream);
  }
  if (++job.whole_restarts > kMostWholeRestarts) {
    fail(ErrorKind::kRuntime,
         "{}: the server of {} sends only whole files, and the connection broke {} times",
         job.wanted().repository, checkpoint::in_quotes(job.wanted().file.path), kMostWholeRestarts);
  }
  job.restart();
  job.whole = true;
}

void Downloader::retry(DownloadStream& stream, Duration pause, const std::string& why) {
  if (++stream.tries > kMostTries) give_up(stream, why);
  stream.due = now() + pause;
  if (stream.tries > 1) {
    listener_.on_notice(fmt::format("{}: {}; trying again", stream.url.host,
                                    scrub(fit_for_message(why), api_.environment().token)));
  }
}

/// Replaces connections that get much less than the others.
void Downloader::replace_slow() {
  const Time time = now();
  std::vector<double> rates;
  for (auto& stream : streams_) {
    if (!stream->running || stream->paused) continue;
    if (const Duration passed = time - stream->sample_start; passed >= kRatePeriod) {
      stream->rate =
          static_cast<double>(stream->sample_bytes) / std::chrono::duration<double>(passed).count();
      stream->sample_start = time;
      stream->sample_bytes = 0;
    }
    if (stream->rate >= 0) rates.push_back(stream->rate);
  }
  if (rates.size() < 3) return;
  std::nth_element(rates.begin(), rates.begin() + static_cast<long>(rates.size() / 2), rates.end());
  const double median = rates[rates.size() / 2];
  for (auto& stream : streams_) {
    if (!stream->running || stream->paused || stream->rate < 0 || stream->rate * kSlowShare >= median)
      continue;
    client_.stop(stream->id);
    stream->running = false;
    stream->fresh = true;
    stream->due = Time{};
  }
}

void Downloader::sync_jobs(bool all) {
  uint64_t unsynced = 0;
  for (const auto& job : jobs_) unsynced += job->unsynced();
  const Time time = now();
  const bool paused =
      std::any_of(streams_.begin(), streams_.end(), [](const auto& stream) { return stream->paused; });
  const bool due = all || paused || time - last_sync_ >= kSyncInterval ||
                   unsynced >= kSyncPerConnection * static_cast<uint64_t>(connections_);
  if (!due) return;
  last_sync_ = time;
  for (auto& job : jobs_) {
    job->sync([at = job.get()](uint64_t bytes) { forget(*at, bytes); });
  }
}

void Downloader::resume_paused() {
  for (auto& stream : streams_) {
    if (!stream->paused || !stream->running) continue;
    if (unmarked_of(jobs_) + kBlock > stream->most_unmarked) return;
    stream->paused = false;
    stream->sample_start = now();
    stream->sample_bytes = 0;
    client_.resume(stream->id);
  }
}

void Downloader::report(bool last) {
  const Time time = now();
  Progress progress;
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const bool newly = jobs_[i]->done() && !progress_[i].done;
    progress_[i].there = jobs_[i]->there();
    progress_[i].done = jobs_[i]->done();
    progress.total += progress_[i].size;
    progress.there += progress_[i].there;
    if (newly) listener_.on_file_done(progress_[i]);
  }
  if (!last && time - last_report_ < kProgressInterval) return;
  last_report_ = time;
  history_.emplace_back(time, fetched_);
  while (history_.size() > 2 && time - history_[1].first >= kRatePeriod) history_.erase(history_.begin());
  const double passed = std::chrono::duration<double>(time - history_.front().first).count();
  if (passed > 0) progress.rate = static_cast<double>(fetched_ - history_.front().second) / passed;
  if (progress.rate > 0)
    progress.seconds_left = static_cast<double>(progress.total - progress.there) / progress.rate;
  progress.files = progress_;
  progress.fetched = fetched_;
  listener_.on_progress(progress);
}

void Downloader::wait() {
  for (const auto& stream : streams_) {
    if (stream->ended) return;
  }
  // With nothing on its way and nothing to hash, only the clock can bring news.
  Time due = Time::max();
  bool running = client_.active() > 0;
  for (const auto& stream : streams_) {
    if (stream->job != nullptr && !stream->running) due = std::min(due, stream->due);
  }
  if (!running && hasher_.idle() && keeper_.idle() && due != Time::max() && due > now()) {
    if (client_.clock().jump(due)) return;
  }
  if (due <= now()) return;
  client_.poll(kTurn);
}

}  // namespace

void download(Api& api, Files& files, const std::vector<DownloadFile>& wanted, const DownloadOptions& options,
              Listener& listener) {
  if (!wanted.empty()) Downloader(api, files, wanted, options, listener).run();
}

}  // namespace slip::hub
