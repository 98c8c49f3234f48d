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

}  // namespace

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
  std::vector<std::byte> map(kHead + marked_.size());
  const size_t length = map_->read(0, map);
  const bool ours =
      length >= kHead && std::equal(head.begin(), head.end(), reinterpret_cast<const char*>(map.data()));
  const uint64_t there = data_->size();
  if (!ours || there > size_) {
    clear();
    map_->write(0, std::as_bytes(std::span(head)));
    return;
  }
  for (uint64_t block = 0; block < marked_.size(); ++block) {
    const bool held = std::min((block + 1) * kBlock, size_) <= there;
    marked_[block] = held && kHead + block < length && map[kHead + block] == kThere;
  }
}

uint64_t Partial::marked_bytes() const {
  uint64_t bytes = 0;
  for (uint64_t block = 0; block < marked_.size(); ++block) {
    if (marked_[block]) bytes += std::min((block + 1) * kBlock, size_) - block * kBlock;
  }
  return bytes;
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
