// Chat: a conversation as Gemma 4's prompt, natively, as Google's template renders it. A turn is <|turn>ROLE,
// a line break, its text, <turn|> and a line break; the assistant's role is called "model". A system turn
// comes first when there is a system text, a tool, or thinking. Calls of tools and their answers stand in the
// model's turn, which stays open until the model goes on. Texts are trimmed; of earlier thoughts only those
// that led to the calls in progress are kept.
//
// What people wrote stays text: see prompt.h. Cost: a copy of the texts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "text/conversation.h"
#include "text/prompt.h"

namespace slip::text {

struct PromptOptions {
  /// The 12B, 26B-A4B and 31B models expect an empty thought behind the generation prompt when they shall not
  /// think; E2B and E4B must not get one (they leak reasoning then).
  bool empty_thought_block = false;
  /// Ends with an open model turn for the model to fill.
  bool add_generation_prompt = true;
  /// The model is asked to think before it answers.
  bool thinking = false;
  /// A tool's answer that belongs to no call is left out, as the template does, instead of refused.
  bool skip_stray_answers = false;
};

/// Throws Error(kUsage) when a tool's answer belongs to no call (see skip_stray_answers).
std::vector<PromptPart> render_chat(const Conversation& conversation, PromptOptions options = {});

/// For conversations without tools: the prompt as one string, and as token ids.
std::string render_prompt(std::span<const Turn> turns, PromptOptions options = {});
/// Throws Error(kBadFile) when the tokenizer lacks Gemma's control tokens.
std::vector<int> encode_chat(const Tokenizer& tokenizer, std::span<const Turn> turns,
                             PromptOptions options = {});

}  // namespace slip::text
