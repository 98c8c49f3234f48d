// Base64 as it arrives in requests. Strict is RFC 4648 section 4 to the letter. Lenient also takes what
// clients really send: line breaks and blanks, the alphabet of section 5 (- and _), and missing padding.
//
// Whatever is left over, such as a foreign character or a lone one at the end, is an error in both: bytes are
// never guessed. Cost: one pass.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace slip::media {

enum class Base64 { kStrict, kLenient };

/// Nothing when the text is not base64.
std::optional<std::vector<std::byte>> decode_base64(std::string_view text, Base64 form = Base64::kLenient);

}  // namespace slip::media
