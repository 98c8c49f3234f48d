// The answers of POST /v1/completions: as a stream of chunks, and whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/openai_reply.h"

namespace slip::server::api {

struct CompletionReplyOptions {
  ReplyFrame frame = {};
  std::vector<std::string> echoes = {};  // of every reply: its prompt as text; empty without echo
  bool echo = false;
  bool answer = true;                          // false: the prompt alone
  bool spelled = false;                        // control tokens are part of the text
  bool drafts = false;                         // are reported
  int logprobs = -1;                           // so many of the likeliest beside each token; -1: none
  size_t replies = 1;                          // prompts times choices
  const text::Tokenizer* tokenizer = nullptr;  // outlives the writer
};

std::unique_ptr<ReplyWriter> completion_stream(CompletionReplyOptions options);
std::unique_ptr<ReplyWriter> whole_completion(CompletionReplyOptions options);

}  // namespace slip::server::api
