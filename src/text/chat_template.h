// What a checkpoint's own chat template (Jinja) tells about its prompts. Prompts are rendered natively
// (chat.h); of the template only one thing is asked, which the sizes of Gemma 4 do differently. Reads the
// template's text, never runs it. Cost: one search.
#pragma once

#include <string_view>

namespace slip::text {

/// Whether it is a template of Gemma 4's turns at all.
bool has_turns(std::string_view chat_template);

/// Whether it writes an empty thought, <|channel>thought\n<channel|>, with nothing but line breaks and the
/// joints of string literals between the two marks.
bool writes_empty_thought(std::string_view chat_template);

}  // namespace slip::text
