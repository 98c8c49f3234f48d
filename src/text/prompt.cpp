#include "text/prompt.h"

#include "base/error.h"

namespace slip::text {

std::string joined(const std::vector<PromptPart>& prompt) {
  std::string text;
  for (const PromptPart& part : prompt) text += part.text;
  return text;
}

std::vector<int> encode_prompt(const Tokenizer& tokenizer, const std::vector<PromptPart>& prompt) {
  std::vector<int> ids;
  for (const PromptPart& part : prompt) {
    if (!part.is_control) {
      const std::vector<int> words = tokenizer.encode(part.text, {.specials = false});
      ids.insert(ids.end(), words.begin(), words.end());
      continue;
    }
    const auto id = tokenizer.id_of(part.text);
    if (!id) {
      fail_file("{}: has no token {}, so it cannot write Gemma 4's turns; send the prompt raw instead",
                tokenizer.name(), part.text);
    }
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace slip::text
