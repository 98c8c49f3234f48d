// The answers of POST /v1/chat/completions: as a stream of chunks, and whole.
#pragma once

#include <memory>
#include <vector>

#include "server/api/openai_reply.h"

namespace slip::server::api {

struct ChatReplyOptions {
  ReplyFrame frame = {};
  std::vector<text::Tool> tools = {};
  bool parallel_calls = true;
  bool logprobs = false;
  bool drafts = false;   // are reported
  bool begun = false;    // the prompt holds the beginning of the reply
  bool in_call = false;  // which stops within a call
  int choices = 1;
  const text::Tokenizer* tokenizer = nullptr;  // outlives the writer
};

/// Of one choice. Ids of its calls begin with `word` and are unique beyond this answer, as clients put several answers
/// into one history.
ReplyShaper chat_shaper(const ChatReplyOptions& options, std::string_view word, int choice = 0);

std::unique_ptr<ReplyWriter> chat_stream(ChatReplyOptions options);
std::unique_ptr<ReplyWriter> whole_chat(ChatReplyOptions options);

}  // namespace slip::server::api
