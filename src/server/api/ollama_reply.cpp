#include "server/api/ollama_reply.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace slip::server::api {
namespace {

using engine::FinishReason;
using Kind = text::ReplyEvent::Kind;

int64_t nanoseconds(double seconds) {
  return static_cast<int64_t>(seconds * 1e9);
}

class OllamaReply final : public ReplyWriter {
 public:
  explicit OllamaReply(OllamaReplyOptions options)
      : options_(std::move(options)), shaper_(chat_shaper(options_.chat, "call_")) {}

  bool streams() const override { return options_.stream; }
  std::string_view content_type() const override { return "application/x-ndjson"; }

  bool add(size_t, const engine::Delta& delta, std::string& out) override {
    if (delta.of_prompt) return true;
    const Shaped shaped = shaper_.add(delta);
    for (const Shaped::Item& item : shaped.items) {
      add_item(item);
      if (!options_.stream) continue;
      line(/*done=*/false, out);
      forget();
    }
    if (delta.finish != FinishReason::kNone) finish_ = delta.finish;
    return !shaped.cancel;
  }

  void life_sign(std::string& out) override { line(/*done=*/false, out); }

  void finish(const RequestRecord& record, std::string& out) override {
    Json last = frame(/*done=*/true);
    const bool cut = shaper_.ending(finish_) == Ending::kLength;
    const RequestRecord::Totals sum = record.totals();
    last["done_reason"] = cut ? "length" : "stop";
    last["total_duration"] = nanoseconds(record.seconds);
    last["load_duration"] = 0;
    last["prompt_eval_count"] = sum.prompt;
    last["prompt_eval_duration"] = nanoseconds(sum.prompt_s);
    last["eval_count"] = sum.output;
    last["eval_duration"] = nanoseconds(sum.decode_s);
    options_.chat.frame.close(last, record);
    out += to_text(last);
    if (options_.stream) out += '\n';
  }

  void fail(const ApiError& error, const RequestRecord& record, std::string& out) override {
    Json last = Json::parse(error_body("/api/chat", error));
    const RequestRecord::Totals sum = record.totals();
    last["prompt_eval_count"] = sum.prompt;
    last["eval_count"] = sum.output;
    out += to_text(last) + '\n';
  }

  int calls() const override { return shaper_.calls(); }

 private:
  /// What has been said and not told.
  Json frame(bool done) const {
    Json message{{"role", "assistant"}, {"content", text_}};
    if (!thoughts_.empty()) message["thinking"] = thoughts_;
    if (!calls_.empty()) message["tool_calls"] = calls_;
    return {{"model", options_.chat.frame.model},
            {"created_at", ollama_time(std::time(nullptr))},
            {"message", std::move(message)},
            {"done", done}};
  }
  void line(bool done, std::string& out) const { out += to_text(frame(done)) + '\n'; }

  void add_item(const Shaped::Item& item) {
    if (item.kind == Kind::kText) text_ += item.text;
    if (item.kind == Kind::kReasoning) thoughts_ += item.text;
    if (item.kind != Kind::kToolCall) return;
    calls_.push_back({{"id", item.call.id},
                      {"function",
                       {{"index", item.call.index},
                        {"name", item.call.name},
                        {"arguments", Json::parse(item.call.arguments)}}}});
  }
  void forget() {
    text_.clear();
    thoughts_.clear();
    calls_ = Json::array();
  }

  OllamaReplyOptions options_;
  ReplyShaper shaper_;
  FinishReason finish_ = FinishReason::kNone;
  std::string text_, thoughts_;
  Json calls_ = Json::array();
};

}  // namespace

std::unique_ptr<ReplyWriter> ollama_reply(OllamaReplyOptions options) {
  return std::make_unique<OllamaReply>(std::move(options));
}

std::string ollama_time(int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.000000Z", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

}  // namespace slip::server::api
