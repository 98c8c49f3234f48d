// Unit: kHashUnit positions of a prompt, as a prefix cache keeps them: the tokens and the rows of media themselves,
// because a key can collide and whoever finds a unit by key compares what it stands for.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "kv/page_key.h"

namespace slip::kv {

/// A stretch of positions that an encoder made; placeholder ids stand in their place.
struct MediaSpan {
  int first = 0;  // position of its first row
  int rows = 0;
  bool both_ways = false;  // its rows see each other in both directions, so they are computed together
  MediaKey key = {};
};

/// What a sequence holds, from position 0 on. `media`: ascending, apart from each other.
struct Content {
  std::span<const int> tokens;
  std::span<const MediaSpan> media = {};
};

/// Rows [offset, offset + rows) of a media item, from place `first` of a unit on.
struct MediaRun {
  int first = 0, rows = 0, offset = 0;
  MediaKey key = {};
  bool operator==(const MediaRun&) const = default;
};

struct Unit {
  std::array<int, kHashUnit> tokens = {};
  std::vector<MediaRun> media = {};
};

/// Of the unit that begins at position `first`, which all of `content` reaches.
Unit unit_at(const Content& content, int first);
bool holds(const Unit& unit, const Content& content, int first);
PageKey unit_key(const PageKey& before, const Content& content, int first);

/// The span whose rows see each other and of which some lie before `position` and some behind it; null = none.
const MediaSpan* span_across(std::span<const MediaSpan> media, int position);

}  // namespace slip::kv
