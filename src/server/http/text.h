// Small questions about the text of HTTP that several files ask: names without regard to case, trimmed values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"

namespace slip::server::http {

/// ASCII only, as HTTP defines it; the locale plays no part.
bool same_word(std::string_view a, std::string_view b);
std::string lower(std::string_view text);
std::string_view trim(std::string_view text);
/// The first header of that name, empty when there is none.
std::string_view find_header(const std::vector<Header>& headers, std::string_view name);
bool has_header(const std::vector<Header>& headers, std::string_view name);
/// Whether the text is UTF-8: no overlong forms, no surrogates, nothing past U+10FFFF.
bool is_utf8(std::string_view text);
/// The items of a list separated by commas, trimmed, empty ones left out.
std::vector<std::string_view> list_items(std::string_view list);

}  // namespace slip::server::http
