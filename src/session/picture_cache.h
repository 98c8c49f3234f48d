// PictureCache: pictures that were looked at, by the hash of what they are (media_key.h), so that one that comes again
// needs neither a decoder nor the encoder. Pictures in use are found too: of two requests with the same picture,
// one has it encoded.
//
// Bounded by the bytes of the rows it keeps alive by itself; the least recently used go first. Any thread.
#pragma once

#include <list>
#include <memory>
#include <mutex>

#include "session/picture_rows.h"

namespace slip::session {

class PictureCache {
 public:
  explicit PictureCache(size_t bytes) : most_bytes_(bytes) {}

  /// Null where it is not known, or went wrong.
  std::shared_ptr<PictureRows> find(const kv::MediaKey& key);
  /// From now on it is found while somebody holds it. Returns the one that is known already, if there is one.
  std::shared_ptr<PictureRows> add(std::shared_ptr<PictureRows> picture);
  /// It has been made, and is kept.
  void keep(const std::shared_ptr<PictureRows>& picture);
  /// It went wrong: whoever asks next tries again.
  void forget(const PictureRows& picture);

  /// Of the rows kept.
  size_t bytes() const;

 private:
  struct Entry {
    kv::MediaKey key;
    std::weak_ptr<PictureRows> picture;
    std::shared_ptr<PictureRows> kept;
  };
  using Place = std::list<Entry>::iterator;

  Place place_of(const kv::MediaKey& key);
  std::shared_ptr<PictureRows> find_locked(const kv::MediaKey& key);
  void make_room();

  const size_t most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the most recently used first
  size_t bytes_ = 0;
};

}  // namespace slip::session
