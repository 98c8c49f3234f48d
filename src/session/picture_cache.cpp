#include "session/picture_cache.h"

#include <algorithm>

namespace slip::session {

std::shared_ptr<PictureRows> PictureCache::find(const kv::MediaKey& key) {
  const std::lock_guard lock(mutex_);
  return find_locked(key);
}

std::shared_ptr<PictureRows> PictureCache::add(std::shared_ptr<PictureRows> picture) {
  const std::lock_guard lock(mutex_);
  if (auto known = find_locked(picture->key())) return known;
  entries_.remove_if([](const Entry& entry) { return entry.picture.expired(); });
  entries_.push_front({.key = picture->key(), .picture = picture, .kept = nullptr});
  return picture;
}

void PictureCache::keep(const std::shared_ptr<PictureRows>& picture) {
  const std::lock_guard lock(mutex_);
  const Place at = place_of(picture->key());
  if (at == entries_.end() || at->kept != nullptr || at->picture.lock() != picture) return;
  at->kept = picture;
  bytes_ += picture->row_bytes();
  entries_.splice(entries_.begin(), entries_, at);
  make_room();
}

void PictureCache::forget(const PictureRows& picture) {
  const std::lock_guard lock(mutex_);
  const Place at = place_of(picture.key());
  if (at == entries_.end() || at->picture.lock().get() != &picture) return;
  if (at->kept != nullptr) bytes_ -= picture.row_bytes();
  entries_.erase(at);
}

size_t PictureCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

PictureCache::Place PictureCache::place_of(const kv::MediaKey& key) {
  return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
}

std::shared_ptr<PictureRows> PictureCache::find_locked(const kv::MediaKey& key) {
  const Place at = place_of(key);
  if (at == entries_.end()) return nullptr;
  auto picture = at->picture.lock();
  if (picture != nullptr) entries_.splice(entries_.begin(), entries_, at);
  return picture;
}

void PictureCache::make_room() {
  for (auto entry = entries_.rbegin(); bytes_ > most_bytes_ && entry != entries_.rend(); ++entry) {
    if (entry->kept == nullptr) continue;
    bytes_ -= entry->kept->row_bytes();
    entry->kept = nullptr;
  }
}

}  // namespace slip::session
