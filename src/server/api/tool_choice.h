// The tools of a request, as far as all APIs agree: which names the model can call, and what a choice among them may ask.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/conversation.h"

namespace slip::server::api {

/// 400 at `where` for a name that a call could not be read back with.
void require_callable(std::string_view name, const std::string& where);
/// 400 at `where` when none of the tools has that name.
void require_tool(std::span<const text::Tool> tools, std::string_view name, const std::string& where);
/// 400: nobody can force a call yet.
[[noreturn]] void fail_forced_call(const std::string& where);

}  // namespace slip::server::api
