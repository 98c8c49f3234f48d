#include "cli/terminal/display_width.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "text/utf8.h"

namespace slip::cli {
namespace {

struct Range {
  uint32_t first, last;
};

constexpr Range kMarks[] = {
    {0x0300, 0x036F},   {0x0483, 0x0489},   {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
    {0x06D6, 0x06DC},   {0x0900, 0x0902},   {0x093C, 0x093C}, {0x0941, 0x0948}, {0x094D, 0x094D},
    {0x0E31, 0x0E31},   {0x0E34, 0x0E3A},   {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
    {0x200B, 0x200F},   {0x202A, 0x202E},   {0x2060, 0x2064}, {0x20D0, 0x20FF}, {0x302A, 0x302D},
    {0x3099, 0x309A},   {0xFE00, 0xFE0F},   {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0x1F3FB, 0x1F3FF},
    {0xE0020, 0xE007F}, {0xE0100, 0xE01EF},
};

constexpr Range kWide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x23F0, 0x23F0},   {0x23F3, 0x23F3},
    {0x25FD, 0x25FE},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x2693},
    {0x26A1, 0x26A1},   {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},   {0x26CE, 0x26CE},
    {0x26D4, 0x26D4},   {0x26EA, 0x26EA},   {0x26F2, 0x26F3},   {0x26F5, 0x26F5},   {0x26FA, 0x26FA},
    {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},   {0x2728, 0x2728},   {0x274C, 0x274C},
    {0x274E, 0x274E},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27B0, 0x27B0},
    {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2B55, 0x2B55},   {0x2E80, 0x303E},   {0x3041, 0x33FF},
    {0x3400, 0x4DBF},   {0x4E00, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
    {0xFE10, 0xFE19},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x16FE0, 0x18AFF},
    {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E}, {0x1F191, 0x1F19A}, {0x1F200, 0x1F320},
    {0x1F32D, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F7E0, 0x1F7EB}, {0x1F90C, 0x1F9FF}, {0x1FA70, 0x1FAFF},
    {0x20000, 0x3FFFD},
};

constexpr uint32_t kJoiner = 0x200D;

template <size_t N>
bool contains(const Range (&ranges)[N], uint32_t point) {
  const Range* after =
      std::upper_bound(std::begin(ranges), std::end(ranges), point,
                       [](uint32_t value, const Range& range) { return value < range.first; });
  return after != std::begin(ranges) && point <= std::prev(after)->last;
}

struct Character {
  size_t bytes = 1;
  uint32_t point = 0xFFFD;
};

Character first_character(std::string_view text) {
  const size_t length = text::character_length(text);
  if (length == 0) return {};
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint32_t point = length == 1 ? byte(0) : byte(0) & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) point = (point << 6) | (byte(i) & 0x3Fu);
  return {length, point};
}

int columns_of_point(uint32_t point) {
  if (point == '\t') return kTabColumns;
  if (point < 0x20 || point == 0x7F || contains(kMarks, point)) return 0;
  return contains(kWide, point) ? 2 : 1;
}

}  // namespace

Cluster first_cluster(std::string_view text) {
  const Character base = first_character(text);
  Cluster cluster{base.bytes, columns_of_point(base.point)};
  if (base.point < 0x20) return cluster;  // marks do not sit on line breaks
  bool joined = base.point == kJoiner;
  while (cluster.bytes < text.size()) {
    const Character next = first_character(text.substr(cluster.bytes));
    if (next.point < 0x20 || (!joined && !contains(kMarks, next.point))) break;
    joined = next.point == kJoiner;
    cluster.bytes += next.bytes;
  }
  return cluster;
}

// Clusters can only be found from the front; a line break always begins one, so the walk is over one line.
size_t cluster_before(std::string_view text, size_t at) {
  if (at == 0) return 0;
  size_t begin = at < 2 ? std::string_view::npos : text.rfind('\n', at - 2);
  begin = begin == std::string_view::npos ? 0 : begin;
  while (true) {
    const size_t next = begin + first_cluster(text.substr(begin)).bytes;
    if (next >= at) return begin;
    begin = next;
  }
}

int columns_of(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const Cluster cluster = first_cluster(text);
    columns += cluster.columns;
    text.remove_prefix(cluster.bytes);
  }
  return columns;
}

}  // namespace slip::cli
