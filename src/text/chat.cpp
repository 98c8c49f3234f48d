#include "text/chat.h"

#include <utility>

#include "base/error.h"
#include "text/utf8.h"

namespace slip::text {
namespace {

constexpr std::string_view kBos = "<bos>";
constexpr std::string_view kTurn = "<|turn>";
constexpr std::string_view kTurnEnd = "<turn|>";
constexpr std::string_view kChannel = "<|channel>";
constexpr std::string_view kChannelEnd = "<channel|>";

// A prompt is control tokens with text between them. Neighbouring texts are one, as BPE may merge across
// them.
struct Part {
  bool control;
  std::string text;
};

class Prompt {
 public:
  void control(std::string_view token) { parts_.push_back({true, std::string(token)}); }
  void text(std::string_view words) {
    if (parts_.empty() || parts_.back().control) parts_.push_back({false, {}});
    parts_.back().text += words;
  }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  std::vector<Part> parts_;
};

// The assistant's own earlier thinking is no part of the history: of each stretch that ends with <channel|>,
// only what stands before <|channel> is kept.
std::string without_thoughts(std::string_view text) {
  std::string kept;
  while (true) {
    const size_t end = text.find(kChannelEnd);
    const std::string_view stretch = text.substr(0, end);
    kept += stretch.substr(0, stretch.find(kChannel));
    if (end == std::string_view::npos) return kept;
    text.remove_prefix(end + kChannelEnd.size());
  }
}

// A developer's word is the system turn when it comes first; later it keeps its name, as in the template.
std::string_view role_name(Role role, bool first) {
  switch (role) {
    case Role::kSystem: return "system";
    case Role::kDeveloper: return first ? "system" : "developer";
    case Role::kAssistant: return "model";
    case Role::kUser: break;
  }
  return "user";
}

Prompt lay_out(std::span<const Turn> turns, PromptOptions options) {
  Prompt prompt;
  prompt.control(kBos);
  const auto open = [&](std::string_view role) {
    prompt.control(kTurn);
    prompt.text(role);
    prompt.text("\n");
  };
  for (size_t i = 0; i < turns.size(); ++i) {
    const auto& [role, text] = turns[i];
    // An assistant that speaks twice in a row gets no second heading.
    const bool continues = i > 0 && role == Role::kAssistant && turns[i - 1].role == Role::kAssistant;
    if (!continues) open(role_name(role, i == 0));
    if (role == Role::kAssistant) {
      prompt.text(trim(without_thoughts(text)));
    } else {
      prompt.text(trim(text));
    }
    prompt.control(kTurnEnd);
    prompt.text("\n");
  }
  if (!options.add_generation_prompt) return prompt;
  open(role_name(Role::kAssistant, false));
  if (options.empty_thought_block) {
    prompt.control(kChannel);
    prompt.text("thought\n");
    prompt.control(kChannelEnd);
  }
  return prompt;
}

}  // namespace

Role role_of(std::string_view name) {
  static constexpr std::pair<std::string_view, Role> kRoles[] = {{"system", Role::kSystem},
                                                                 {"developer", Role::kDeveloper},
                                                                 {"user", Role::kUser},
                                                                 {"assistant", Role::kAssistant},
                                                                 {"model", Role::kAssistant}};
  for (const auto& [known, role] : kRoles) {
    if (name == known) return role;
  }
  fail_usage("there is no role \"{}\"; a turn is by system, developer, user or assistant", name);
}

std::string render_prompt(std::span<const Turn> turns, PromptOptions options) {
  const Prompt prompt = lay_out(turns, options);
  std::string text;
  for (const Part& part : prompt.parts()) text += part.text;
  return text;
}

std::vector<int> encode_chat(const Tokenizer& tokenizer, std::span<const Turn> turns, PromptOptions options) {
  const Prompt prompt = lay_out(turns, options);
  std::vector<int> ids;
  for (const Part& part : prompt.parts()) {
    if (!part.control) {
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
