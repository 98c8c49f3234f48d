// Pictures in requests, in the spelling of every API: one place that turns an image part into what the session looks at.
//
//   OpenAI chat        {"type": "image_url", "image_url": {"url": U, "detail": D}}, also with the URL as a bare string
//   OpenAI Responses   {"type": "input_image", "image_url": U, "detail": D}
//   Anthropic          {"type": "image", "source": {"type": "base64", "data": B} or {"type": "url", "url": U}}
//   ollama             "images": [B, ...] beside the content
//
// U is a data: URL, or one that the operator allowed. `detail` low, auto and high are 70 tokens, the server's own number
// and its largest; "max_soft_tokens" on a part is exact. Errors name the part by its place and have OpenAI's codes.
// Nothing of a URL or of a decoder gets into a message.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "session/model.h"
#include "session/picture_source.h"

namespace slip::server::api {

/// A picture of a request, not looked at yet.
struct ImagePart {
  std::string where;  // "messages[2].content[0]"
  std::string url = {};
  std::string base64 = {};              // instead of a URL
  std::optional<int> soft_tokens = {};  // media::kBudgets; kLargestAllowed: detail "high"
};
inline constexpr int kLargestAllowed = -1;

/// The part as a picture; nothing when it is none by its type. Throws ApiError for one that is malformed.
std::optional<ImagePart> read_image_part(const nlohmann::json& part, const std::string& where);
/// One of ollama's `images`.
ImagePart read_base64_image(const nlohmann::json& text, const std::string& where);

/// The pictures of a request while it is read.
struct ImageList {
  bool seen = false;  // the model sees: otherwise pictures are refused, and in a tool's result become a word
  std::vector<ImagePart> parts = {};

  /// Takes the picture in; returns the part that stands for it in a turn.
  text::ContentPart add(ImagePart part);
};

/// What the operator allows.
struct ImageRules {
  bool on = true;
  session::PictureSources sources = {};
  int most = media::kMostImages;        // in a request
  size_t bytes = size_t{64} << 20;      // of all pictures of a request
  std::optional<int> soft_tokens = {};  // where a request does not say; empty: the model's own number
  int most_soft_tokens = media::kLargestBudget;
};

/// `asked`: by the request for all its pictures ("mm_processor_kwargs": {"max_soft_tokens": N}).
struct ImageAsk {
  std::optional<int> soft_tokens = {};
  kv::Salt salt = {};
  size_t room = 0;  // positions in the context: more are refused before anything is decoded
};

/// The pictures in the order in which a conversation shows them, which need not be that in which they were read.
std::vector<ImagePart> in_order(const text::Conversation& conversation, const ImageList& images);

/// Fetches and decodes them, in order. Throws ApiError.
std::vector<session::Picture> look_at(const session::Model& model, std::span<const ImagePart> parts,
                                      const ImageRules& rules, const ImageAsk& ask,
                                      std::stop_token stop = {});

/// The number of soft tokens that a request asks for all its pictures. Throws ApiError.
std::optional<int> read_image_tokens(const nlohmann::json& body);

}  // namespace slip::server::api
