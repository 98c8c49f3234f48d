// One file of a download: which of its blocks are there, which are on their way, how far the hash got. Used
// by the thread of the connections alone; hashing and syncing are posted to their threads, and what follows
// from them comes back as calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hub/background.h"
#include "hub/digest.h"
#include "hub/download.h"
#include "hub/partial.h"
#include "net/url.h"

namespace slip::hub {

/// A run of bytes that one connection fetches.
struct Piece {
  uint64_t begin = 0, end = 0;
};

class DownloadJob {
 public:
  DownloadJob(const DownloadFile& wanted, Files& files, Background& hasher, Background& keeper);

  const DownloadFile& wanted() const { return wanted_; }
  uint64_t size() const { return wanted_.file.size; }
  bool done() const { return done_; }
  uint64_t there() const { return done_ ? size() : there_; }

  /// The next bytes to fetch: the first gap, at most `longest`. A gap behind everything taken so far is given
  /// only if `may_advance` bytes allow it.
  std::optional<Piece> take(uint64_t longest, uint64_t may_advance);
  /// The rest of a piece that will not come.
  void give_back(const Piece& rest);
  /// Writes bytes that came.
  void write(uint64_t offset, std::span<const std::byte> bytes) { partial_.write(offset, bytes); }
  /// Blocks that are complete now that a piece got to `position`.
  void received(uint64_t from, uint64_t position);
  /// Bytes between what the hash has seen and the last byte that was taken.
  uint64_t ahead_of_hash() const;

  /// Complete blocks that no sync was asked for yet, in bytes.
  uint64_t unsynced() const { return unsynced_bytes_; }
  /// Posts their sync; `marked` is told the bytes once they are safe.
  void sync(std::function<void(uint64_t bytes)> marked);
  bool syncing() const { return syncing_; }

  /// The download failed, and nothing is posted any more: where no byte is marked, no file stays.
  void abandon();
  /// Everything is fetched from the start again.
  void restart();
  /// Called on every turn: posts the hash of new blocks, and the end of the file when all is hashed.
  void advance();

  // What the connections know about its address.
  std::optional<net::Url> address;
  int generation = 0;  // counts addresses
  int denials = 0;     // addresses refused in a row
  bool whole = false;  // its server knows no ranges
  int whole_restarts = 0;
  int wrong_sizes = 0;    // replies of another length than the file
  uint64_t unmarked = 0;  // bytes written in this run and not marked

 private:
  enum class Block : uint8_t { kMissing, kTaken, kThere };
  uint64_t bytes_of(uint64_t block) const;
  void load_marks();
  void hash_blocks(uint64_t first, uint64_t last);
  void finish(const std::string& sum);

  const DownloadFile& wanted_;
  Background& hasher_;
  Background& keeper_;
  Partial partial_;
  std::vector<Block> blocks_;
  uint64_t there_ = 0;
  uint64_t first_missing_ = 0;  // no gap before it that is not taken
  uint64_t prefix_ = 0;         // blocks there from the start, which no hash has seen
  uint64_t frontier_ = 0;       // behind the last block that is taken or there
  uint64_t hash_posted_ = 0, hashed_ = 0;
  std::vector<uint64_t> unsynced_;
  uint64_t unsynced_bytes_ = 0;
  bool syncing_ = false, finishing_ = false, refetched_ = false, done_ = false;
  std::unique_ptr<Digest> digest_;
};

}  // namespace slip::hub
