#include "hub/partial.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace slip::hub {
namespace {

constexpr size_t kHead = 256;
constexpr std::byte kThere{1};

std::string head_of(const std::string& etag, uint64_t size) {
  std::string head = fmt::format("slipstream partial 1 {} {}\n", size, etag);
  SLIP_CHECK(head.size() <= kHead);
  head.resize(kHead, ' ');
  return head;
}

bool is_marked(std::string_view map, uint64_t block, uint64_t size, uint64_t data_size) {
  return std::min((block + 1) * kBlock, size) <= data_size && kHead + block < map.size() &&
         map[kHead + block] == static_cast<char>(kThere);
}

}  // namespace

uint64_t marked_bytes_of(std::string_view map, const std::string& etag, uint64_t size, uint64_t data_size) {
  if (!map.starts_with(head_of(etag, size)) || data_size > size) return 0;
  uint64_t bytes = 0;
  for (uint64_t block = 0; block < blocks_of(size); ++block) {
    if (is_marked(map, block, size, data_size))
      bytes += std::min((block + 1) * kBlock, size) - block * kBlock;
  }
  return bytes;
}

Partial::Partial(Files& files, fs::path stem, const std::string& etag, uint64_t size)
    : files_(files),
      size_(size),
      data_path_(stem.string() + ".slipstream"),
      map_path_(stem.string() + ".slipstream.map"),
      data_(files.open(data_path_)),
      map_(files.open(map_path_)),
      marked_(blocks_of(size)) {
  read_map(head_of(etag, size));
  files_.sync_folder(data_path_.parent_path());
}

void Partial::read_map(const std::string& head) {
  std::string map(kHead + marked_.size(), '\0');
  map.resize(map_->read(0, std::as_writable_bytes(std::span(map))));
  const uint64_t there = data_->size();
  if (!map.starts_with(head) || there > size_) {
    clear();
    map_->write(0, std::as_bytes(std::span(head)));
    return;
  }
  for (uint64_t block = 0; block < marked_.size(); ++block)
    marked_[block] = is_marked(map, block, size_, there);
}

void Partial::mark(const std::vector<uint64_t>& blocks) {
  data_->sync();
  for (const uint64_t block : blocks) {
    map_->write(kHead + block, std::span(&kThere, 1));
    marked_[block] = true;
  }
  map_->sync();
}

void Partial::clear() {
  // The marks go first: without them the data means nothing.
  map_->truncate(std::min<uint64_t>(map_->size(), kHead));
  map_->sync();
  data_->truncate(0);
  std::fill(marked_.begin(), marked_.end(), false);
}

void Partial::publish(const fs::path& to) {
  data_->sync();
  files_.rename(data_path_, to);
  files_.sync_folder(to.parent_path());
  files_.remove(map_path_);
}

void Partial::discard() {
  files_.remove(map_path_);
  files_.remove(data_path_);
}

}  // namespace slip::hub
