#include "hub/download_job.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/json_text.h"

namespace slip::hub {
namespace {

// Blocks that one task of the hash takes: a task is not interrupted, so it must not take long.
constexpr uint64_t kBlocksPerTask = 16;
constexpr size_t kHashBuffer = size_t{64} << 10;

Digest::Kind kind_of(const RemoteFile& file) {
  return file.large ? Digest::Kind::kSha256 : Digest::Kind::kGitBlob;
}

}  // namespace

DownloadJob::DownloadJob(const DownloadFile& wanted, Files& files, Background& hasher, Background& keeper)
    : wanted_(wanted),
      hasher_(hasher),
      keeper_(keeper),
      partial_(files, wanted.stem, wanted.file.etag, wanted.file.size),
      digest_(std::make_unique<Digest>(kind_of(wanted.file), wanted.file.size)) {
  load_marks();
}

uint64_t DownloadJob::bytes_of(uint64_t block) const {
  return std::min((block + 1) * kBlock, size()) - block * kBlock;
}

void DownloadJob::load_marks() {
  const auto& marked = partial_.marked();
  blocks_.assign(marked.size(), Block::kMissing);
  there_ = first_missing_ = frontier_ = hash_posted_ = hashed_ = 0;
  for (uint64_t block = 0; block < marked.size(); ++block) {
    if (!marked[block]) continue;
    blocks_[block] = Block::kThere;
    there_ += bytes_of(block);
    frontier_ = block + 1;
  }
  prefix_ = 0;
  while (prefix_ < blocks_.size() && blocks_[prefix_] == Block::kThere) ++prefix_;
}

std::optional<Piece> DownloadJob::take(uint64_t longest, uint64_t may_advance) {
  while (first_missing_ < blocks_.size() && blocks_[first_missing_] != Block::kMissing) ++first_missing_;
  const uint64_t first = first_missing_;
  if (done_ || first == blocks_.size()) return std::nullopt;
  uint64_t last = first;
  while (last < blocks_.size() && blocks_[last] == Block::kMissing &&
         (last + 1 - first) * kBlock <= longest &&
         (last < frontier_ || (last + 1 - std::max(first, frontier_)) * kBlock <= may_advance)) {
    blocks_[last++] = Block::kTaken;
  }
  if (last == first) return std::nullopt;
  frontier_ = std::max(frontier_, last);
  return Piece{first * kBlock, std::min(last * kBlock, size())};
}

void DownloadJob::give_back(const Piece& rest) {
  // A block of which only a part came is fetched whole again.
  const uint64_t first = rest.begin / kBlock;
  for (uint64_t block = first; block < blocks_of(rest.end); ++block) {
    if (blocks_[block] == Block::kTaken) blocks_[block] = Block::kMissing;
  }
  first_missing_ = std::min(first_missing_, first);
}

void DownloadJob::received(uint64_t from, uint64_t position) {
  const uint64_t end = position == size() ? blocks_.size() : position / kBlock;
  for (uint64_t block = from / kBlock; block < end; ++block) {
    if (blocks_[block] != Block::kTaken) continue;
    blocks_[block] = Block::kThere;
    there_ += bytes_of(block);
    unsynced_.push_back(block);
    unsynced_bytes_ += bytes_of(block);
  }
}

uint64_t DownloadJob::ahead_of_hash() const {
  if (done_) return 0;
  const uint64_t seen = std::max(hashed_, prefix_);
  return frontier_ > seen ? (frontier_ - seen) * kBlock : 0;
}

void DownloadJob::sync(std::function<void(uint64_t bytes)> marked) {
  if (unsynced_.empty() || syncing_) return;
  syncing_ = true;
  const auto blocks = std::make_shared<std::vector<uint64_t>>(std::exchange(unsynced_, {}));
  const uint64_t bytes = std::exchange(unsynced_bytes_, 0);
  keeper_.post([this, blocks] { partial_.mark(*blocks); },
               [this, bytes, marked = std::move(marked)] {
                 syncing_ = false;
                 marked(bytes);
               });
}

void DownloadJob::abandon() {
  const auto& marked = partial_.marked();
  if (!done_ && std::find(marked.begin(), marked.end(), true) == marked.end()) partial_.discard();
}

void DownloadJob::restart() {
  hasher_.drain();
  keeper_.drain();
  partial_.clear();
  unsynced_.clear();
  unsynced_bytes_ = unmarked = 0;
  finishing_ = false;
  digest_ = std::make_unique<Digest>(kind_of(wanted_.file), size());
  load_marks();
}

void DownloadJob::hash_blocks(uint64_t first, uint64_t last) {
  std::vector<std::byte> buffer(kHashBuffer);
  uint64_t offset = first * kBlock;
  const uint64_t end = std::min(last * kBlock, size());
  while (offset < end) {
    const size_t wanted = std::min<uint64_t>(buffer.size(), end - offset);
    const size_t got = partial_.read(offset, std::span(buffer).first(wanted));
    if (got == 0) fail(ErrorKind::kRuntime, "{}: is shorter than it was", partial_.data_path().string());
    digest_->add(std::span(buffer).first(got));
    offset += got;
  }
}

void DownloadJob::advance() {
  if (done_ || finishing_) return;
  // One task at a time, so that two files take turns.
  uint64_t ready = hash_posted_;
  while (hash_posted_ == hashed_ && ready < blocks_.size() && blocks_[ready] == Block::kThere &&
         ready - hash_posted_ < kBlocksPerTask) {
    ++ready;
  }
  if (ready > hash_posted_) {
    const uint64_t first = std::exchange(hash_posted_, ready);
    hasher_.post([this, first, ready] { hash_blocks(first, ready); }, [this, ready] { hashed_ = ready; });
  }
  if (hashed_ == blocks_.size()) {
    finishing_ = true;
    finish(digest_->finish());
  }
}

void DownloadJob::finish(const std::string& sum) {
  if (sum == wanted_.file.etag) {
    keeper_.post(
        [this] {
          partial_.publish(wanted_.target);
          if (wanted_.placed) wanted_.placed();
        },
        [this] { done_ = true; });
    return;
  }
  if (refetched_) {
    keeper_.drain();
    partial_.discard();
    fail(ErrorKind::kRuntime,
         "{}: {} came twice with a wrong hash ({} instead of {}); it was deleted, so try again later or with "
         "another mirror",
         wanted_.repository, checkpoint::in_quotes(wanted_.file.path), sum, wanted_.file.etag);
  }
  restart();
  refetched_ = true;
  address.reset();
}

}  // namespace slip::hub
