#include "cli/flags/image_options.h"

#include "media/fit.h"

namespace slip::cli {

int ImageOptions::most_tokens(int own) const {
  const int asked = tokens.value_or(own);
  return asked == media::kAutoBudget ? media::kLargestBudget : asked;
}

void add_image_files(Parser& parser, ImageOptions& options) {
  parser.texts({"--image", "FILE", "show a picture: JPEG, PNG, WebP or GIF; may be repeated"}, options.files);
}

void add_image_tokens(Parser& parser, ImageOptions& options) {
  std::vector<std::pair<std::string, std::optional<int>>> words;
  for (const int budget : media::kBudgets) words.emplace_back(std::to_string(budget), budget);
  words.emplace_back("auto", media::kAutoBudget);
  parser.choice(
      {"--image-tokens", "N", "detail of a picture; auto: as much as it has (default: the model's own)"},
      words, options.tokens);
}

}  // namespace slip::cli
