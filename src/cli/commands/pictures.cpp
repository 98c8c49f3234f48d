#include "cli/commands/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/terminal/output.h"
#include "media/fit.h"
#include "media/media_file.h"

namespace slip::cli {
namespace {

using session::Picture;

std::vector<std::string> split_at_marks(const std::string& text) {
  const std::string_view mark = kPictureMark;
  std::vector<std::string> pieces;
  size_t from = 0;
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, from)) {
    pieces.push_back(text.substr(from, at - from));
    from = at + mark.size();
  }
  pieces.push_back(text.substr(from));
  return pieces;
}

void check_marks(size_t marks, size_t pictures) {
  if (marks == 0 || marks == pictures) return;
  fail_usage("the prompt says {} {} times, but there {} {} picture{}; give as many, or leave the marks out",
             kPictureMark, marks, pictures == 1 ? "is" : "are", pictures, pictures == 1 ? "" : "s");
}

}  // namespace

std::vector<Picture> look_at(const session::Model& model, std::span<const std::string> files,
                             std::optional<int> tokens) {
  if (files.size() > media::kMostImages)
    fail_usage("--image may be given {} times at most, not {}", media::kMostImages, files.size());
  const session::Vision* vision = files.empty() ? nullptr : model.vision();
  std::vector<Picture> pictures;
  for (const std::string& file : files) {
    session::PictureFile sent{.name = file, .bytes = {}};
    if (vision != nullptr) sent.bytes = media::read_media_file(file, vision->limits());
    pictures.push_back(model.look(sent, {.soft_tokens = tokens}));
  }
  return pictures;
}

text::Turn turn_with_pictures(const std::string& text, size_t pictures) {
  using Kind = text::ContentPart::Kind;
  if (pictures == 0) return {text::Role::kUser, text};
  const std::vector<std::string> pieces = split_at_marks(text);
  check_marks(pieces.size() - 1, pictures);
  text::Turn turn{.role = text::Role::kUser};
  if (pieces.size() == 1) turn.parts.assign(pictures, {Kind::kImage, {}});
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) turn.parts.push_back({Kind::kImage, {}});
    if (!pieces[i].empty()) turn.parts.push_back({Kind::kText, pieces[i]});
  }
  return turn;
}

std::string raw_with_pictures(const std::string& text, size_t pictures) {
  const size_t marks = split_at_marks(text).size() - 1;
  if (pictures == 0) return text;
  check_marks(marks, pictures);
  std::string front;
  for (size_t i = marks; i < pictures; ++i) front += kPictureMark;
  return front + text;
}

int most_tokens_of(std::span<const Picture> pictures) {
  int most = 0;
  for (const Picture& picture : pictures) most = std::max(most, picture.facts().soft_tokens);
  return most;
}

std::string picture_text(const Picture& picture) {
  const session::PictureFacts& facts = picture.facts();
  std::string text = fmt::format("{}: {} x {}, seen as {} x {} in {} tokens", picture.name, facts.width,
                                 facts.height, facts.seen_width, facts.seen_height, facts.soft_tokens);
  if (facts.shrunk) {
    const int more = media::fit(facts.width, facts.height, media::kAutoBudget).budget;
    text += more > facts.budget ? fmt::format("; made smaller, --image-tokens {} shows more", more)
                                : "; made smaller";
  }
  if (facts.animated) text += "; only its first frame";
  if (facts.transparent) text += "; on white";
  return text;
}

std::string pictures_summary(std::span<const Picture> pictures) {
  int tokens = 0;
  double decode = 0, encode = 0;
  for (const Picture& picture : pictures) {
    tokens += picture.facts().soft_tokens;
    if (picture.known) continue;
    decode += picture.facts().decode_s;
    encode += picture.rows->encode_s();
  }
  return fmt::format("{} picture{} in {} tokens: decoded in {:.2f} s, encoded in {:.2f} s", pictures.size(),
                     pictures.size() == 1 ? "" : "s", tokens, decode, encode);
}

nlohmann::ordered_json pictures_json(std::span<const Picture> pictures) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Picture& picture : pictures) {
    const session::PictureFacts& facts = picture.facts();
    list.push_back({{"name", picture.name},
                    {"width", facts.width},
                    {"height", facts.height},
                    {"seen_width", facts.seen_width},
                    {"seen_height", facts.seen_height},
                    {"tokens", facts.soft_tokens},
                    {"budget", facts.budget},
                    {"shrunk", facts.shrunk},
                    {"decode_seconds", facts.decode_s},
                    {"encode_seconds", picture.rows->encode_s()}});
  }
  return list;
}

PictureProgress::PictureProgress(std::span<const Picture> pictures)
    : pictures_(pictures), visible_(!pictures.empty() && stderr_is_terminal()) {}

void PictureProgress::update() {
  if (!visible_) return;
  const auto next = std::find_if(pictures_.begin(), pictures_.end(),
                                 [](const Picture& picture) { return !picture.rows->settled(); });
  if (next == pictures_.end()) return wipe();
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (seconds < 1) return;
  drawn_ = true;
  write_err(fmt::format("\rlooking at picture {} of {}: {:.0f} %, {:.0f} s\x1b[K",
                        next - pictures_.begin() + 1, pictures_.size(), 100 * next->rows->progress(),
                        seconds));
}

void PictureProgress::wipe() {
  if (drawn_) write_err("\r\x1b[K");
  drawn_ = false;
}

}  // namespace slip::cli
