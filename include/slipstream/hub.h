// Downloads: from a model's name to files in Hugging Face's own cache, where slip::Model::open() finds them. What was
// interrupted goes on where it stopped. Tokens, mirrors and the cache's place come from the environment, as for
// Hugging Face's tools (docs/models.md).
//
//   slip::Hub hub;
//   const slip::DownloadPlan plan = hub.plan("gemma-4-e2b");   // nothing is written yet
//   hub.download("gemma-4-e2b", {.on_event = [](const slip::DownloadEvent& event) { ... }});
//
// Calls block and come from one thread at a time; cancel() may come from any. Everything throws slip::Error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipstream/error.h"

namespace slip {

struct DownloadFile {
  std::string repository, path;
  std::uint64_t bytes = 0;
  std::uint64_t there = 0;  // that need not be fetched
};

/// What a download would do.
struct DownloadPlan {
  std::string repository, commit, licence;
  std::string drafter;  // its repository; "" = the model has none, or none is wanted
  std::string folder;   // of the model, where it will be
  std::vector<DownloadFile> files;
  std::uint64_t bytes = 0, missing = 0, free_disk = 0;
  bool complete() const { return missing == 0; }
};

struct DownloadEvent {
  enum class Kind {
    kProgress,  // at most five times a second
    kFile,      // `text` is a file whose hash was right and that is in its place
    kNotice,    // `text` says why it takes longer: another download, a rate limit, a server that fails
  };
  Kind kind = Kind::kProgress;
  std::string text;
  std::uint64_t bytes = 0, there = 0;
  double bytes_per_second = 0;
  std::optional<double> seconds_left;
};

struct DownloadOptions {
  bool drafter = true;  // the one that belongs to the model, too
  int connections = 8;
  std::function<void(const DownloadEvent&)> on_event = {};  // on the thread that called
};

struct Downloaded {
  std::string folder;   // what Model::open() takes; the name does as well
  std::string drafter;  // its folder; "" = none
  std::uint64_t fetched = 0;
};

class Hub {
 public:
  Hub();
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  DownloadPlan plan(const std::string& name, const DownloadOptions& options = {});
  /// Of a model that is whole it fetches what changed. Without a network such a model is taken as it is.
  Downloaded download(const std::string& name, const DownloadOptions& options = {});
  /// From any thread: the call at work, and each later one, ends with an Error. What came is kept.
  void cancel() noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slip
