// Tools in Gemma 4's own notation, which is near JSON: keys are bare and sorted without regard to case, and a
// string stands between two <|"|> tokens without escapes. The order of fields, the upper-case types and
// Python's spelling of null and floats are those of the template the models were trained with.
#pragma once

#include <string_view>

#include "text/conversation.h"
#include "text/prompt.h"

namespace slip::text {

/// <|tool>declaration:NAME{...}<tool|>
void write_declaration(const Tool& tool, PromptWriter& out);
/// <|tool_call>call:NAME{...}<tool_call|>
/// `null`: how a null is spelled; Google's template of July 2026 writes "null".
void write_call(const ToolCall& call, PromptWriter& out, std::string_view null = "None");
/// <|tool_response>response:NAME{...}<tool_response|>; what is no object is shown as the field "value".
void write_response(std::string_view name, const nlohmann::json& result, PromptWriter& out);

}  // namespace slip::text
