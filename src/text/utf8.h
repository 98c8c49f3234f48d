// UTF-8 as the tokenizer needs it: where a character ends, whether bytes are valid, and trimming. "Valid" is
// strict (no surrogates, no overlong forms, nothing above U+10FFFF), the rule Hugging Face's tokenizers
// apply, because text that one side takes for a character and the other for loose bytes would get other token
// ids. Cost: one look at each byte, no allocation.
#pragma once

#include <cstddef>
#include <string_view>

namespace slip::text {

/// One U+FFFD in UTF-8: what a byte that belongs to no character is shown as.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Bytes of the valid character at the start of `text` (1 to 4), or 0 when there is none.
size_t character_length(std::string_view text);

bool is_valid_utf8(std::string_view text);

/// `text` without white space at its ends, as Python's str.strip() and therefore the chat templates cut it:
/// all of Unicode's white space and the four ASCII separators U+001C to U+001F.
std::string_view trim(std::string_view text);

}  // namespace slip::text
