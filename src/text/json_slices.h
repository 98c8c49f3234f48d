// JSON text cut into its parts without reading them: the value of a key, the items of a list. So a part of a request
// can be kept as it was written, with the order of its keys and with 2 told apart from 2.0.
//
// For text that a parser has accepted before; of other text the slices mean nothing, but stay inside it. Cost: one
// look at each byte.
#pragma once

#include <string_view>
#include <vector>

namespace slip::text {

/// The value of the last `key` in the text of an object, as parsers take it; empty when it is not there.
std::string_view member_slice(std::string_view object, std::string_view key);

/// The values in the text of a list.
std::vector<std::string_view> item_slices(std::string_view list);

}  // namespace slip::text
