#include "server/api/messages_reply.h"

#include <algorithm>
#include <optional>

#include "server/api/found_stop.h"

namespace slip::server::api {
namespace {

using engine::FinishReason;
using Kind = text::ReplyEvent::Kind;

// Clients send it back, and nobody checks it: thoughts are not secret here.
constexpr const char* kSignature = "slipstream";

Json usage_of(const RequestRecord& record) {
  const RequestRecord::Totals sum = record.totals();
  return {{"input_tokens", sum.prompt - sum.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", sum.cached},
          {"output_tokens", sum.output}};
}

/// A block with its text, which is empty at its beginning.
Json block_json(Kind kind, const std::string& text, const ShapedCall& call) {
  if (kind == Kind::kText) return {{"type", "text"}, {"text", text}};
  if (kind == Kind::kReasoning)
    return {{"type", "thinking"}, {"thinking", text}, {"signature", text.empty() ? "" : kSignature}};
  Json input = Json::object();
  if (!text.empty()) input = Json::parse(text);
  return {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", std::move(input)}};
}

Json delta_json(Kind kind, const std::string& text) {
  if (kind == Kind::kText) return {{"type", "text_delta"}, {"text", text}};
  if (kind == Kind::kReasoning) return {{"type", "thinking_delta"}, {"thinking", text}};
  return {{"type", "input_json_delta"}, {"partial_json", text}};
}

class MessagesReply final : public ReplyWriter {
 public:
  explicit MessagesReply(MessagesReplyOptions options)
      : options_(std::move(options)),
        shaper_(chat_shaper(options_.chat, "toolu_")),
        found_stop_(*options_.chat.tokenizer, options_.stops) {}

  bool streams() const override { return options_.stream; }

  void begin(std::string& out) override {
    Json message = open_message();
    message["usage"] = {{"input_tokens", options_.prompt_tokens},
                        {"cache_creation_input_tokens", 0},
                        {"cache_read_input_tokens", 0},
                        {"output_tokens", 0}};
    append_named_event(out, {{"type", "message_start"}, {"message", std::move(message)}});
  }

  bool add(size_t, const engine::Delta& delta, std::string& out) override {
    if (delta.of_prompt) return true;
    Shaped shaped = shaper_.add(delta);
    for (Shaped::Item& item : shaped.items) add_item(std::move(item), out);
    found_stop_.add(delta.token);
    if (delta.finish != FinishReason::kNone) finish_ = delta.finish;
    return !shaped.cancel;
  }

  void life_sign(std::string& out) override {
    if (!open_) open({.kind = options_.thinking ? Kind::kReasoning : Kind::kText}, out);
    tell_delta("", out);
  }

  void finish(const RequestRecord& record, std::string& out) override {
    if (!options_.stream) return finish_whole(record, out);
    close(out);
    Json last{{"type", "message_delta"},
              {"delta", {{"stop_reason", stop_reason()}, {"stop_sequence", stop_sequence()}}},
              {"usage", usage_of(record)}};
    options_.chat.frame.close(last, record);
    append_named_event(out, last);
    append_named_event(out, {{"type", "message_stop"}});
  }

  void fail(const ApiError& error, const RequestRecord& record, std::string& out) override {
    Json event = Json::parse(error_body("/v1/messages", error));
    event["usage"] = usage_of(record);
    append_named_event(out, event);
  }

  int calls() const override { return shaper_.calls(); }

 private:
  Json open_message() const {
    return {{"id", options_.chat.frame.id}, {"type", "message"},
            {"role", "assistant"},          {"model", options_.chat.frame.model},
            {"content", Json::array()},     {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }

  void finish_whole(const RequestRecord& record, std::string& out) {
    Json message = open_message();
    for (const Shaped::Item& block : blocks_)
      message["content"].push_back(block_json(
          block.kind, block.kind == Kind::kToolCall ? block.call.arguments : block.text, block.call));
    message["stop_reason"] = stop_reason();
    message["stop_sequence"] = stop_sequence();
    message["usage"] = usage_of(record);
    options_.chat.frame.close(message, record);
    out += to_text(message);
  }

  void add_item(Shaped::Item item, std::string& out) {
    if (!options_.stream) {
      const bool more = !blocks_.empty() && item.kind != Kind::kToolCall && blocks_.back().kind == item.kind;
      if (more) {
        blocks_.back().text += item.text;
      } else {
        blocks_.push_back(std::move(item));
      }
      return;
    }
    if (open_ != item.kind || item.kind == Kind::kToolCall) {
      close(out);
      open(item, out);
    }
    tell_delta(item.kind == Kind::kToolCall ? item.call.arguments : item.text, out);
  }

  // Of a stream: at most one block is open, until another kind of block or the end comes.
  void open(const Shaped::Item& item, std::string& out) {
    open_ = item.kind;
    append_named_event(out, {{"type", "content_block_start"},
                             {"index", index_},
                             {"content_block", block_json(item.kind, "", item.call)}});
  }
  void tell_delta(const std::string& text, std::string& out) {
    append_named_event(
        out, {{"type", "content_block_delta"}, {"index", index_}, {"delta", delta_json(*open_, text)}});
  }
  void close(std::string& out) {
    if (!open_) return;
    if (open_ == Kind::kReasoning) {
      append_named_event(out, {{"type", "content_block_delta"},
                               {"index", index_},
                               {"delta", {{"type", "signature_delta"}, {"signature", kSignature}}}});
    }
    append_named_event(out, {{"type", "content_block_stop"}, {"index", index_}});
    open_.reset();
    ++index_;
  }

  const char* stop_reason() const {
    switch (shaper_.ending(finish_)) {
      case Ending::kLength: return "max_tokens";
      case Ending::kCalls: return "tool_use";
      case Ending::kComplete: break;
    }
    return finish_ == FinishReason::kStopString ? "stop_sequence" : "end_turn";
  }

  Json stop_sequence() const {
    return finish_ == FinishReason::kStopString ? Json(found_stop_.text()) : Json();
  }

  MessagesReplyOptions options_;
  ReplyShaper shaper_;
  FoundStop found_stop_;
  FinishReason finish_ = FinishReason::kNone;
  std::vector<Shaped::Item> blocks_;  // of a whole answer
  std::optional<Kind> open_;
  int index_ = 0;
};

}  // namespace

std::unique_ptr<ReplyWriter> messages_reply(MessagesReplyOptions options) {
  return std::make_unique<MessagesReply>(std::move(options));
}

}  // namespace slip::server::api
