#include "session/picture_prompt.h"

#include <algorithm>

#include "base/error.h"

namespace slip::session {
namespace {

const char* plural(size_t count) {
  return count == 1 ? "" : "s";
}

}  // namespace

Prompt with_pictures(std::span<const int> ids, std::span<const Picture> pictures,
                     const checkpoint::MediaTokens& tokens) {
  const auto marks = static_cast<size_t>(std::count(ids.begin(), ids.end(), tokens.image));
  if (marks != pictures.size()) {
    fail_usage("the prompt has places for {} picture{}, but {} {} given", marks, plural(marks),
               pictures.size(), pictures.size() == 1 ? "was" : "were");
  }
  Prompt prompt;
  auto rest = ids.begin();
  for (const Picture& picture : pictures) {
    const auto mark = std::find(rest, ids.end(), tokens.image);
    std::vector<int> before(rest, mark);
    before.push_back(tokens.begin_image);
    prompt.add(std::move(before));
    prompt.add(picture.media);
    prompt.add(std::vector<int>{tokens.end_image});
    rest = mark + 1;
  }
  prompt.add(std::vector<int>(rest, ids.end()));
  return prompt;
}

}  // namespace slip::session
