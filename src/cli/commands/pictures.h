// Pictures on a command line: read and decoded before a model is loaded, so that a bad one costs nothing, and what was
// seen of them afterwards.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "session/model.h"
#include "text/conversation.h"

namespace slip::cli {

/// Where a picture stands in what somebody writes; without one pictures stand in front.
inline constexpr const char* kPictureMark = "<|image|>";

/// Throws Error(kUsage) for too many, or a model that reads text alone; and what session::Model::look() throws.
std::vector<session::Picture> look_at(const session::Model& model, std::span<const std::string> files,
                                      std::optional<int> tokens);

/// A user's turn that shows so many pictures. Throws Error(kUsage) when the text has marks, but not as many.
text::Turn turn_with_pictures(const std::string& text, size_t pictures);
/// The same for a prompt that goes to the model as it stands.
std::string raw_with_pictures(const std::string& text, size_t pictures);

/// Of the largest of them; 0 without any.
int most_tokens_of(std::span<const session::Picture> pictures);

/// "cat.jpg: 4000 x 3000, seen as 912 x 672 in 266 tokens; made smaller, --image-tokens 1120 shows more"
std::string picture_text(const session::Picture& picture);
/// "2 pictures in 330 tokens: decoded in 0.11 s, encoded in 1.52 s"
std::string pictures_summary(std::span<const session::Picture> pictures);
nlohmann::ordered_json pictures_json(std::span<const session::Picture> pictures);

/// A line on the terminal while the tower takes longer than a second; wiped when it is done.
class PictureProgress {
 public:
  explicit PictureProgress(std::span<const session::Picture> pictures);
  ~PictureProgress() { wipe(); }
  PictureProgress(const PictureProgress&) = delete;
  PictureProgress& operator=(const PictureProgress&) = delete;

  /// Cheap; from the thread that writes.
  void update();

 private:
  using Clock = std::chrono::steady_clock;
  void wipe();

  std::span<const session::Picture> pictures_;
  const bool visible_;
  bool drawn_ = false;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace slip::cli
