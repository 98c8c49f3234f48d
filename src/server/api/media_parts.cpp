#include "server/api/media_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/api/error.h"

namespace slip::server::api {
namespace {

constexpr MediaName kMedia[] = {
    {"image", "image", "see"},        {"image_url", "image", "see"},  {"input_image", "image", "see"},
    {"video", "video", "see"},        {"video_url", "video", "see"},  {"input_video", "video", "see"},
    {"audio", "audio", "hear"},       {"audio_url", "audio", "hear"}, {"input_audio", "audio", "hear"},
    {"document", "document", "read"}, {"file", "document", "read"},   {"input_file", "document", "read"}};

}  // namespace

const MediaName* media_of(const nlohmann::json& part) {
  if (!part.is_object()) return nullptr;
  const auto type = part.find("type");
  if (type != part.end() && !type->is_string()) return nullptr;
  // Some clients leave the type out: {"image_url": ...}.
  const auto is = [&](const MediaName& media) {
    return type != part.end() ? type->get_ref<const std::string&>() == media.type
                              : media.type.ends_with("_url") && part.contains(media.type);
  };
  const auto found = std::find_if(std::begin(kMedia), std::end(kMedia), is);
  return found == std::end(kMedia) ? nullptr : found;
}

std::string unseen_text(const MediaName& media) {
  return fmt::format("[{}: this server cannot {}]", media.what, media.sense);
}

std::optional<text::ContentPart> take_picture(const nlohmann::json& part, const MediaName& media,
                                              const std::string& where, ImageList& images) {
  if (!images.seen || media.what != "image") return std::nullopt;
  auto image = read_image_part(part, where);
  if (!image) return std::nullopt;
  return images.add(std::move(*image));
}

void fail_media(const std::string& where, const MediaName& media) {
  fail_unsupported(where, "this server cannot {} a part of type \"{}\" yet; send text", media.sense,
                   media.type);
}

}  // namespace slip::server::api
