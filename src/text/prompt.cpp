#include "text/prompt.h"

#include "base/error.h"

namespace slip::text {

std::string joined(const std::vector<Segment>& prompt) {
  std::string text;
  for (const Segment& segment : prompt) text += segment.text;
  return text;
}

std::vector<int> encode_prompt(const Tokenizer& tokenizer, const std::vector<Segment>& prompt) {
  std::vector<int> ids;
  for (const Segment& segment : prompt) {
    if (!segment.is_control) {
      const std::vector<int> words = tokenizer.encode(segment.text, {.specials = false});
      ids.insert(ids.end(), words.begin(), words.end());
      continue;
    }
    const auto id = tokenizer.id_of(segment.text);
    if (!id) {
      fail_file("{}: has no token {}, so it cannot write Gemma 4's turns; send the prompt raw instead",
                tokenizer.name(), segment.text);
    }
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace slip::text
