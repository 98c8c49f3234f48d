#include "server/api/image_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "media/base64.h"
#include "media/refused.h"
#include "media/url.h"
#include "server/api/error.h"
#include "server/api/fields.h"

namespace slip::server::api {
namespace {

using nlohmann::json;

std::string_view text_of(const json& value, const std::string& path) {
  if (!value.is_string()) fail_field(path, "must be a string, not {}", kind_text(value));
  return value.get_ref<const std::string&>();
}

/// A field of an object that must be there and a string; a view into the body.
std::string_view need_text(const json& object, const char* key, const std::string& path) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) fail_field(path + "." + key, "is missing");
  return text_of(*found, path + "." + key);
}

int checked_tokens(int64_t tokens, const std::string& path) {
  if (tokens != media::kAutoBudget &&
      media::is_budget(static_cast<int>(std::clamp<int64_t>(tokens, -1, 1 << 20))))
    return static_cast<int>(tokens);
  fail_field(path, "must be 70, 140, 280, 560 or 1120, not {}", tokens);
}

std::optional<int> tokens_of_detail(const json& value, const std::string& path) {
  const std::string_view word = text_of(value, path);
  if (word == "low") return media::kBudgets.front();
  if (word == "high" || word == "original") return kLargestAllowed;
  if (word == "auto") return std::nullopt;
  fail_field(path, "must be low, auto or high, not '{}'", word.substr(0, 40));
}

/// Of the part itself, or of the object inside it.
void read_detail(const json& object, const std::string& path, ImagePart& image) {
  if (!object.is_object()) return;
  if (const auto detail = object.find("detail"); detail != object.end() && !detail->is_null())
    image.soft_tokens = tokens_of_detail(*detail, path + ".detail");
  if (const auto tokens = object.find("max_soft_tokens"); tokens != object.end() && !tokens->is_null()) {
    if (!tokens->is_number_integer())
      fail_field(path + ".max_soft_tokens", "must be a whole number, not {}", kind_text(*tokens));
    image.soft_tokens = checked_tokens(tokens->get<int64_t>(), path + ".max_soft_tokens");
  }
}

/// "image_url": an object with a "url", or the URL.
void read_image_url(const json& part, const std::string& where, ImagePart& image) {
  const std::string path = where + ".image_url";
  const auto found = part.find("image_url");
  if (found == part.end() || found->is_null()) {
    if (part.contains("file_id"))
      fail_unsupported(where + ".file_id", "this server keeps no files; send a data: URL");
    fail_field(path, "is missing");
  }
  if (!found->is_object()) {
    image.url = text_of(*found, path);
    return;
  }
  image.url = need_text(*found, "url", path);
  read_detail(*found, path, image);
}

/// Anthropic's; also {"image": U} and {"url": U}, as Hugging Face's templates take them.
void read_source(const json& part, const std::string& where, ImagePart& image) {
  const auto source = part.find("source");
  if (source == part.end() || source->is_null()) {
    for (const char* key : {"image", "url", "image_url"}) {
      if (!part.contains(key)) continue;
      image.url = need_text(part, key, where);
      return;
    }
    fail_field(where + ".source", "is missing");
  }
  const std::string path = where + ".source";
  if (!source->is_object()) fail_field(path, "must be an object, not {}", kind_text(*source));
  const std::string_view type = need_text(*source, "type", path);
  if (type == "base64") {
    image.base64 = need_text(*source, "data", path);
  } else if (type == "url") {
    image.url = need_text(*source, "url", path);
  } else if (type == "file") {
    fail_unsupported(path + ".type", "this server keeps no files; send \"base64\"");
  } else {
    fail_field(path + ".type", "must be base64 or url, not '{}'", type.substr(0, 40));
  }
}

ApiError refused_error(const media::Refused& refused, const std::string& where) {
  const std::string_view code = media::openai_code(refused.fault());
  if (code.empty()) return {500, "", refused.what()};  // ours: no worker, no sandbox
  return {400, std::string(code), refused.what(), where};
}

session::PictureFile fetch(const ImagePart& part, const ImageRules& rules, std::stop_token stop) {
  const media::Limits& limits = rules.sources.limits;
  if (part.base64.empty())
    return {part.where, session::read_picture_url(part.url, part.where, rules.sources, std::move(stop))};
  // Many clients put a data: URL where bare base64 belongs.
  if (media::url_kind(part.base64) == media::UrlKind::kData)
    return {part.where, media::parse_data_url(part.base64, part.where, limits).bytes};
  if (part.base64.size() / 4 > limits.bytes)
    throw media::Refused({.fault = media::Fault::kTooManyBytes}, part.where, limits);
  auto bytes = media::decode_base64(part.base64);
  if (!bytes) throw media::Refused({.fault = media::Fault::kBadBase64}, part.where, limits);
  return {part.where, std::move(*bytes)};
}

class Looking {
 public:
  Looking(const session::Model& model, const ImageRules& rules, const ImageAsk& ask)
      : model_(model), rules_(rules), ask_(ask) {}

  std::vector<session::PictureFile> fetch_all(std::span<const ImagePart> parts, const std::stop_token& stop) {
    std::vector<session::PictureFile> files;
    size_t bytes = 0, positions = 0;
    for (const ImagePart& part : parts) {
      files.push_back(fetch(part, rules_, stop));
      bytes += files.back().bytes.size();
      if (bytes > rules_.bytes)
        throw ApiError(413, "image_file_too_large",
                       fmt::format("{}: the pictures of a request may have {} MiB together", part.where,
                                   rules_.bytes >> 20),
                       part.where);
      positions += static_cast<size_t>(model_.vision()->foresee(files.back(), options_for(part)).value_or(0));
      if (positions >= ask_.room)
        throw ApiError(400, "context_length_exceeded",
                       fmt::format("prompt is too long: its pictures alone take {} tokens > {} maximum",
                                   positions, ask_.room - 1),
                       part.where);
    }
    return files;
  }

  session::PictureOptions options_for(const ImagePart& part) const {
    const int own = rules_.soft_tokens.value_or(model_.vision()->default_soft_tokens());
    int tokens = part.soft_tokens.value_or(ask_.soft_tokens.value_or(own));
    if (tokens == kLargestAllowed) tokens = rules_.most_soft_tokens;
    if (tokens > rules_.most_soft_tokens)
      fail_field(part.where, "this server gives a picture at most {} tokens, not {}", rules_.most_soft_tokens,
                 tokens);
    return {.soft_tokens = tokens, .salt = ask_.salt};
  }

 private:
  const session::Model& model_;
  const ImageRules& rules_;
  const ImageAsk& ask_;
};

}  // namespace

std::optional<ImagePart> read_image_part(const json& part, const std::string& where) {
  if (!part.is_object()) return std::nullopt;
  const auto type = part.find("type");
  const std::string_view name =
      type != part.end() && type->is_string() ? std::string_view(type->get_ref<const std::string&>()) : "";
  ImagePart image{.where = where};
  if (name == "image_url" || name == "input_image" || (type == part.end() && part.contains("image_url"))) {
    read_image_url(part, where, image);
  } else if (name == "image") {
    read_source(part, where, image);
  } else {
    return std::nullopt;
  }
  if (!image.soft_tokens) read_detail(part, where, image);
  return image;
}

ImagePart read_base64_image(const json& text, const std::string& where) {
  return {.where = where, .base64 = std::string(text_of(text, where))};
}

text::ContentPart ImageList::add(ImagePart part) {
  parts.push_back(std::move(part));
  return {.kind = text::ContentPart::Kind::kImage, .media = static_cast<int>(parts.size()) - 1};
}

std::vector<ImagePart> in_order(const text::Conversation& conversation, const ImageList& images) {
  std::vector<ImagePart> ordered;
  for (const text::Turn& turn : conversation.turns) {
    for (const text::ContentPart& part : turn.parts) {
      if (part.kind == text::ContentPart::Kind::kImage)
        ordered.push_back(images.parts.at(static_cast<size_t>(part.media)));
    }
  }
  return ordered;
}

std::optional<int> read_image_tokens(const json& body) {
  const auto kwargs = body.find("mm_processor_kwargs");
  if (kwargs == body.end() || kwargs->is_null()) return std::nullopt;
  if (!kwargs->is_object())
    fail_field("mm_processor_kwargs", "must be an object, not {}", kind_text(*kwargs));
  const json* inner = &*kwargs;
  std::string path = "mm_processor_kwargs";
  if (const auto images = kwargs->find("images_kwargs"); images != kwargs->end() && images->is_object()) {
    inner = &*images;
    path += ".images_kwargs";
  }
  const auto tokens = inner->find("max_soft_tokens");
  if (tokens == inner->end() || tokens->is_null()) return std::nullopt;
  path += ".max_soft_tokens";
  if (!tokens->is_number_integer()) fail_field(path, "must be a whole number, not {}", kind_text(*tokens));
  return checked_tokens(tokens->get<int64_t>(), path);
}

std::vector<session::Picture> look_at(const session::Model& model, std::span<const ImagePart> parts,
                                      const ImageRules& rules, const ImageAsk& ask, std::stop_token stop) {
  if (parts.empty()) return {};
  const std::string& first = parts.front().where;
  if (!rules.on || model.vision() == nullptr)
    fail_unsupported(first, "this server cannot see pictures; send text");
  if (parts.size() > static_cast<size_t>(rules.most))
    fail_field(parts[static_cast<size_t>(rules.most)].where, "a request may hold at most {} pictures, not {}",
               rules.most, parts.size());
  Looking looking(model, rules, ask);
  std::vector<session::Picture> pictures;
  std::string where = first;
  try {
    const std::vector<session::PictureFile> files = looking.fetch_all(parts, stop);
    for (size_t i = 0; i < files.size(); ++i) {
      where = parts[i].where;
      pictures.push_back(model.look(files[i], looking.options_for(parts[i]), stop));
    }
  } catch (const media::Refused& refused) {
    // Its sentence begins with the place.
    throw refused_error(refused,
                        std::string(refused.what()).substr(0, std::string(refused.what()).find(": ")));
  } catch (const Error& error) {
    throw ApiError(400, "image_too_large", error.what(), where);
  }
  return pictures;
}

}  // namespace slip::server::api
