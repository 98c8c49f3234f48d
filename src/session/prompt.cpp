#include "session/prompt.h"

#include "text/reply_parser.h"

namespace slip::session {

void Prompt::add(std::vector<int> ids) {
  if (ids.empty()) return;
  if (segments_.empty() || segments_.back().media) segments_.emplace_back();
  std::vector<int>& last = segments_.back().ids;
  last.insert(last.end(), ids.begin(), ids.end());
}

void Prompt::add(Media media) {
  segments_.push_back({.media = std::move(media)});
}

size_t Prompt::size() const {
  size_t positions = 0;
  for (const Segment& segment : segments_)
    positions += segment.media ? static_cast<size_t>(segment.media->rows) : segment.ids.size();
  return positions;
}

void Prompt::fill(engine::Request& request, int placeholder) const {
  for (const Segment& segment : segments_) {
    if (!segment.media) {
      request.prompt.insert(request.prompt.end(), segment.ids.begin(), segment.ids.end());
      continue;
    }
    const Media& media = *segment.media;
    request.media.push_back({.first = static_cast<int>(request.prompt.size()),
                             .rows = media.rows,
                             .both_ways = media.span == Media::Span::kBothWays,
                             .key = media.key,
                             .soft = media.soft});
    request.prompt.insert(request.prompt.end(), static_cast<size_t>(media.rows), placeholder);
  }
}

Prompt raw_prompt(const text::Tokenizer& tokenizer, std::string_view text, const RawOptions& options) {
  return Prompt(tokenizer.encode(text, {.specials = options.parse_specials, .add_bos = options.add_bos}));
}

bool ends_in_thought(const text::Tokenizer& tokenizer, std::span<const int> ids) {
  const auto tokens = text::ReplyTokens::of(tokenizer);
  for (size_t i = ids.size(); i > 0; --i) {
    const int id = ids[i - 1];
    if (id == tokens.channel) return true;
    if (id == tokens.channel_end || id == tokens.turn_end) return false;
  }
  return false;
}

}  // namespace slip::session
