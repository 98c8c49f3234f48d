// The two ways a model's tokens become a reply: a chat reply told apart into reasoning, text and tool calls, and
// plain text that goes on from a prompt.
#pragma once

#include <memory>

#include "engine/request.h"
#include "text/tokenizer.h"

namespace slip::session {

/// `in_thought`: the prompt already opened a thought. The tokenizer must outlive the stream.
std::unique_ptr<engine::ReplyStream> chat_reply_stream(const text::Tokenizer& tokenizer,
                                                       bool in_thought = false);

}  // namespace slip::session
