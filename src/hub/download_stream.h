// One connection of a download: at most one piece and one transfer at a time. It judges replies and writes what is
// right of them into its file; what to do about the rest is for the Downloader to say. Used by the thread of the
// connections alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hub/download_job.h"
#include "net/clock.h"
#include "net/http_client.h"
#include "net/url.h"

namespace slip::hub {

/// Why a reply was not taken.
enum class ReplyFault {
  kNone,
  kNoRanges,    // 200 where a part was asked for
  kWrongRange,  // another part than was asked for
  kWrongSize,   // the body has another length than the file
  kStatus,      // an error status
};

using DownloadJobs = std::vector<std::unique_ptr<DownloadJob>>;

/// Bytes of all files that are written and not marked.
uint64_t unmarked_of(const DownloadJobs& jobs);

/// One of the connections: at most one piece and one transfer.
struct DownloadStream : net::Receiver {
  DownloadJob* job = nullptr;
  Piece piece;
  uint64_t position = 0;
  const DownloadJobs* all_jobs = nullptr;
  uint64_t most_unmarked = 0;
  uint64_t* fetched = nullptr;

  net::HttpClient::Id id = 0;
  bool running = false, ended = false, paused = false, fresh = false;
  net::End end;
  net::Reply reply;
  ReplyFault fault = ReplyFault::kNone;
  std::string error_body;
  net::Url url;
  std::optional<net::Url> detour;  // where the address redirects this one request
  int hops = 0;                    // redirects so far
  int generation = 0;
  uint64_t start_position = 0;
  bool asked_range = false;

  int tries = 0, rate_waits = 0;
  net::Time due{};           // nothing before it
  net::Time sample_start{};  // of the rate
  uint64_t sample_bytes = 0;
  double rate = -1;  // bytes a second over the last sample; negative = not known yet

  bool on_head(const net::Reply& head) override;
  net::Flow on_body(std::span<const std::byte> bytes) override;
  void on_end(const net::End& how) override {
    end = how;
    running = false;
    ended = true;
  }
  ReplyFault check_head() const;
};

}  // namespace slip::hub
