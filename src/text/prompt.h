// A prompt as pieces: control tokens, and the text between them. Whoever renders says which is which, so a
// control token that somebody spelled out in a text stays text: encode_prompt() looks control pieces up by
// name and encodes everything else with special tokens off.
//
// Invariant: no two neighbouring pieces are text, because BPE may merge across them; none is empty.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace slip::text {

struct PromptPart {
  std::string text;
  bool is_control = false;
};

/// The control tokens of Gemma 4's turns.
namespace mark {
inline constexpr std::string_view kBos = "<bos>";
inline constexpr std::string_view kTurn = "<|turn>";
inline constexpr std::string_view kTurnEnd = "<turn|>";
inline constexpr std::string_view kThink = "<|think|>";
inline constexpr std::string_view kChannel = "<|channel>";
inline constexpr std::string_view kChannelEnd = "<channel|>";
inline constexpr std::string_view kTool = "<|tool>";
inline constexpr std::string_view kToolEnd = "<tool|>";
inline constexpr std::string_view kToolCall = "<|tool_call>";
inline constexpr std::string_view kToolCallEnd = "<tool_call|>";
inline constexpr std::string_view kToolResponse = "<|tool_response>";
inline constexpr std::string_view kToolResponseEnd = "<tool_response|>";
inline constexpr std::string_view kQuote = "<|\"|>";
inline constexpr std::string_view kImage = "<|image|>";
inline constexpr std::string_view kAudio = "<|audio|>";
inline constexpr std::string_view kVideo = "<|video|>";
inline constexpr std::string_view kEos = "<eos>";
inline constexpr std::string_view kUnknown = "<unk>";
}  // namespace mark

class PromptWriter {
 public:
  void control(std::string_view token) { parts_.push_back({std::string(token), true}); }
  void text(std::string_view words) {
    if (words.empty()) return;
    if (parts_.empty() || parts_.back().is_control) parts_.push_back({});
    parts_.back().text += words;
  }
  /// `words` between the marks that stand for quotes.
  void quoted(std::string_view words) {
    control(mark::kQuote);
    text(words);
    control(mark::kQuote);
  }
  std::vector<PromptPart> take() { return std::move(parts_); }

 private:
  std::vector<PromptPart> parts_;
};

/// The prompt as one string, for reading and for tests. Encoding that string with special tokens on would let
/// spelled-out control tokens through.
std::string joined(const std::vector<PromptPart>& prompt);

/// Throws Error(kBadFile) when the tokenizer lacks one of the control tokens.
std::vector<int> encode_prompt(const Tokenizer& tokenizer, const std::vector<PromptPart>& prompt);

}  // namespace slip::text
