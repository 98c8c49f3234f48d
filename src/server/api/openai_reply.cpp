#include "server/api/openai_reply.h"

#include <fmt/format.h>

#include <cmath>

#include "text/utf8.h"

namespace slip::server::api {
namespace {

/// The byte of "<0xE2>", or -1.
int byte_of(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
  int value = 0;
  for (const char c : piece.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

Json bytes_json(const std::string& bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

}  // namespace

Json ReplyFrame::open() const {
  return {{"id", id},
          {"object", object},
          {"created", created},
          {"model", model},
          {"system_fingerprint", fingerprint}};
}

void ReplyFrame::close(Json& body, const RequestRecord& record) const {
  body["seed"] = seed;
  body["timings"] = timings_json(record);
  if (!warnings.empty()) body["warnings"] = warnings;
}

std::string token_bytes(const text::Tokenizer& tokenizer, int id) {
  if (const int byte = byte_of(tokenizer.piece(id)); byte >= 0)
    return std::string(1, static_cast<char>(byte));
  return tokenizer.decode(std::vector<int>{id});
}

std::string token_text(const text::Tokenizer& tokenizer, int id) {
  const int byte = byte_of(tokenizer.piece(id));
  if (byte >= 0x80) return fmt::format("bytes:\\x{:02x}", byte);
  return token_bytes(tokenizer, id);
}

Json logprob_json(float logprob) {
  constexpr float kLeast = -9999;
  return shortest(std::isfinite(logprob) ? logprob : kLeast);
}

Json score_json(const text::Tokenizer& tokenizer, const Score& score) {
  const auto one = [&](int id, float logprob) {
    return Json{{"token", token_text(tokenizer, id)},
                {"logprob", logprob_json(logprob)},
                {"bytes", bytes_json(token_bytes(tokenizer, id))}};
  };
  Json json = one(score.id, score.logprob);
  Json top = Json::array();
  for (const sample::TokenLogprob& other : score.top) top.push_back(one(other.id, other.logprob));
  json["top_logprobs"] = std::move(top);
  return json;
}

void append_failure(const ApiError& error, const RequestRecord& record, std::string& out) {
  Json body = Json::parse(error_body("/v1/chat/completions", error));
  body["usage"] = usage_json(record);
  append_event(out, body);
  out += "data: [DONE]\n\n";
}

}  // namespace slip::server::api
