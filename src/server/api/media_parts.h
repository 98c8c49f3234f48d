// What clients call a part of a content that is no text: an image, a video, a sound, a document. One table for every
// API, so that none of them answers as if it had seen what it cannot see.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "server/api/image_parts.h"

namespace slip::server::api {

struct MediaName {
  std::string_view type, what, sense;  // "input_image", "image", "see"
};

/// Null for a part that is none of them.
const MediaName* media_of(const nlohmann::json& part);
/// What stands in a tool's result in its place: "[image: this server cannot see]".
std::string unseen_text(const MediaName& media);
/// The part that stands for a picture in a turn, where the model sees; nothing for media that nobody here takes in.
std::optional<text::ContentPart> take_picture(const nlohmann::json& part, const MediaName& media,
                                              const std::string& where, ImageList& images);
/// 400 that names the part at `where`.
[[noreturn]] void fail_media(const std::string& where, const MediaName& media);

}  // namespace slip::server::api
