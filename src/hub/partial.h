// A file on its way: blobs/<etag>.slipstream holds its bytes, at their places, and <etag>.slipstream.map says
// which of its blocks of 1 MiB are there. A block is marked only after its bytes were synced, so what the map
// says is true after a loss of power, too; what it does not say is fetched again. Both names are ours: no
// other program takes a file with holes for a finished one.
//
// Map: a line of text with version, size and etag, padded to 256 bytes, then one byte per block, 1 = there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hub/files.h"

namespace slip::hub {

inline constexpr uint64_t kBlock = uint64_t{1} << 20;

inline uint64_t blocks_of(uint64_t size) {
  return (size + kBlock - 1) / kBlock;
}

/// The bytes that a map's text says are there, if it is the map of this file and `data_size` bytes of data
/// lie beside it.
uint64_t marked_bytes_of(std::string_view map, const std::string& etag, uint64_t size, uint64_t data_size);

class Partial {
 public:
  /// Opens or begins the download of a file. A map that does not belong to this file, or says more than the
  /// data holds, counts for nothing.
  Partial(Files& files, fs::path stem, const std::string& etag, uint64_t size);

  const std::vector<bool>& marked() const { return marked_; }

  // From any thread.
  void write(uint64_t offset, std::span<const std::byte> bytes) { data_->write(offset, bytes); }
  size_t read(uint64_t offset, std::span<std::byte> bytes) { return data_->read(offset, bytes); }

  // From one thread at a time.
  /// Syncs the data, then marks the blocks, then syncs the map.
  void mark(const std::vector<uint64_t>& blocks);
  /// Nothing is there any more.
  void clear();
  /// Syncs the data and gives it its final name and place. The map goes last: a map without data is nothing.
  void publish(const fs::path& to);
  void discard();

  const fs::path& data_path() const { return data_path_; }

 private:
  void read_map(const std::string& head);

  Files& files_;
  uint64_t size_;
  fs::path data_path_, map_path_;
  std::unique_ptr<File> data_, map_;
  std::vector<bool> marked_;
};

}  // namespace slip::hub
