// The answers of POST /v1/messages: one list of content blocks, told event by event or whole at the end.
//
// A stream begins at once with message_start. Life signs are empty deltas of the open block, because Claude Code counts
// those and no pings; where no block is open yet they open the one that is likely to come.
#pragma once

#include <memory>

#include "server/api/chat_reply.h"

namespace slip::server::api {

struct MessagesReplyOptions {
  ChatReplyOptions chat = {};  // of one choice
  bool stream = false;
  bool thinking = false;  // was asked for
  size_t prompt_tokens = 0;
  std::vector<std::string> stops = {};
};

std::unique_ptr<ReplyWriter> messages_reply(MessagesReplyOptions options);

}  // namespace slip::server::api
