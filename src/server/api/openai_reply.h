// What chat and text completions of OpenAI's API share: the names around a reply, log-probabilities, and the objects
// that a body or a chunk consists of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/json_text.h"
#include "server/api/reply_shaper.h"
#include "server/api/reply_writer.h"
#include "text/tokenizer.h"

namespace slip::server::api {

/// Around every answer and every chunk of it.
struct ReplyFrame {
  std::string id;      // "chatcmpl-..."
  std::string object;  // "chat.completion"; of chunks "chat.completion.chunk"
  std::string model;   // the true id, whatever the request said
  std::string fingerprint;
  int64_t created = 0;
  Json seed;                          // in use
  std::vector<std::string> warnings;  // what was asked and is not enforced
  bool include_usage = false;         // in a last chunk

  Json open() const;
  /// What stands at the end of a body, and of a stream's last chunk with a choice.
  void close(Json& body, const RequestRecord& record) const;
};

/// The bytes of one token, which may be half a character.
std::string token_bytes(const text::Tokenizer& tokenizer, int id);
/// Those bytes as text: "bytes:\xe2" where they are no UTF-8.
std::string token_text(const text::Tokenizer& tokenizer, int id);
/// A number that JSON can hold: what is no number, or infinitely unlikely, becomes -9999.
Json logprob_json(float logprob);

/// A token of the answer with its log-probability and the likeliest beside it.
Json score_json(const text::Tokenizer& tokenizer, const Score& score);

/// The end of a stream that failed: OpenAI's error object as an event, usage beside it, then [DONE].
void append_failure(const ApiError& error, const RequestRecord& record, std::string& out);

}  // namespace slip::server::api
