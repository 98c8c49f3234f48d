#include "server/api/chat_reply.h"

#include <fmt/format.h>

#include "server/api/draft_report.h"
#include "text/prompt.h"

namespace slip::server::api {
namespace {

using engine::FinishReason;
using Kind = text::ReplyEvent::Kind;

/// One choice, as far as both ways of answering know it.
struct Choice {
  ReplyShaper shaper;
  const char* finish = "stop";
};

std::vector<Choice> choices_of(const ChatReplyOptions& options) {
  std::vector<Choice> choices;
  for (int i = 0; i < options.choices; ++i) choices.push_back({chat_shaper(options, "call_", i)});
  return choices;
}

/// Both names that clients know: llama.cpp's and vLLM's.
void add_reasoning(Json& message, const std::string& text) {
  message["reasoning_content"] = text;
  message["reasoning"] = text;
}

class ChatStream final : public ReplyWriter {
 public:
  explicit ChatStream(ChatReplyOptions options)
      : options_(std::move(options)), choices_(choices_of(options_)) {
    begun_.resize(choices_.size());
    scores_.resize(choices_.size(), Json::array());
    drafts_.resize(choices_.size(), Json::array());
  }

  bool streams() const override { return true; }

  bool add(size_t index, const engine::Delta& delta, std::string& out) override {
    if (delta.of_prompt) return true;
    Choice& choice = choices_[index];
    const Shaped shaped = choice.shaper.add(delta);
    for (const Score& score : shaped.scores) scores_[index].push_back(score_json(*options_.tokenizer, score));
    if (options_.drafts) append_drafts(drafts_[index], delta, shaped);
    for (const Shaped::Item& item : shaped.items) add_item(index, item, out);
    if (delta.finish != FinishReason::kNone)
      choice.finish = finish_reason(choice.shaper.ending(delta.finish));
    return !shaped.cancel;
  }

  void life_sign(std::string& out) override { chunk(0, Json::object(), out); }

  void finish(const RequestRecord& record, std::string& out) override {
    for (size_t i = 0; i < choices_.size(); ++i) {
      Json body = options_.frame.open();
      body["choices"] = Json::array({choice_json(i, Json::object(), choices_[i].finish)});
      if (options_.frame.include_usage) body["usage"] = nullptr;
      if (i + 1 == choices_.size()) options_.frame.close(body, record);
      append_event(out, body);
    }
    if (options_.frame.include_usage) {
      Json body = options_.frame.open();
      body["choices"] = Json::array();
      body["usage"] = usage_json(record);
      append_event(out, body);
    }
    out += "data: [DONE]\n\n";
  }

  void fail(const ApiError& error, const RequestRecord& record, std::string& out) override {
    append_failure(error, record, out);
  }

  int calls() const override { return count_calls(choices_); }
  static int count_calls(const std::vector<Choice>& choices) {
    int calls = 0;
    for (const Choice& choice : choices) calls += choice.shaper.calls();
    return calls;
  }

 private:
  void add_item(size_t index, const Shaped::Item& item, std::string& out) {
    Json delta = Json::object();
    if (item.kind == Kind::kText) {
      delta["content"] = item.text;
    } else if (item.kind == Kind::kReasoning) {
      add_reasoning(delta, item.text);
    } else {
      // Index, id, type and name once, then the arguments: clients add up whatever comes twice.
      const ShapedCall& call = item.call;
      delta["tool_calls"] = Json::array({{{"index", call.index},
                                          {"id", call.id},
                                          {"type", "function"},
                                          {"function", {{"name", call.name}, {"arguments", ""}}}}});
      chunk(index, std::move(delta), out);
      delta = {{"tool_calls",
                Json::array({{{"index", call.index}, {"function", {{"arguments", call.arguments}}}}})}};
    }
    chunk(index, std::move(delta), out);
  }

  void chunk(size_t index, Json delta, std::string& out) {
    Json body = options_.frame.open();
    body["choices"] = Json::array({choice_json(index, std::move(delta), nullptr)});
    if (options_.frame.include_usage) body["usage"] = nullptr;
    append_event(out, body);
  }

  Json choice_json(size_t index, Json delta, const char* finish) {
    if (!begun_[index]) {
      begun_[index] = true;
      Json first{{"role", "assistant"}};
      if (!delta.contains("content")) first["content"] = "";
      first.update(delta);
      delta = std::move(first);
    }
    Json choice{
        {"index", index}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
    if (!scores_[index].empty()) {
      choice["logprobs"] = {{"content", std::move(scores_[index])}, {"refusal", nullptr}};
      scores_[index] = Json::array();
    }
    if (!drafts_[index].empty()) {
      choice["drafts"] = std::move(drafts_[index]);
      drafts_[index] = Json::array();
    }
    if (finish != nullptr) choice["finish_reason"] = finish;
    return choice;
  }

  ChatReplyOptions options_;
  std::vector<Choice> choices_;
  std::vector<char> begun_;            // its first chunk is out
  std::vector<Json> scores_, drafts_;  // that wait for a chunk
};

class WholeChat final : public ReplyWriter {
 public:
  explicit WholeChat(ChatReplyOptions options)
      : options_(std::move(options)), choices_(choices_of(options_)) {
    messages_.resize(choices_.size());
  }

  bool streams() const override { return false; }

  bool add(size_t index, const engine::Delta& delta, std::string&) override {
    if (delta.of_prompt) return true;
    Choice& choice = choices_[index];
    Message& message = messages_[index];
    Shaped shaped = choice.shaper.add(delta);
    for (const Score& score : shaped.scores) message.scores.push_back(score_json(*options_.tokenizer, score));
    if (options_.drafts) append_drafts(message.drafts, delta, shaped);
    for (Shaped::Item& item : shaped.items) {
      if (item.kind == Kind::kText) message.text += item.text;
      if (item.kind == Kind::kReasoning) message.reasoning += item.text;
      if (item.kind == Kind::kToolCall) message.calls.push_back(std::move(item.call));
    }
    if (delta.finish != FinishReason::kNone)
      choice.finish = finish_reason(choice.shaper.ending(delta.finish));
    return !shaped.cancel;
  }

  void life_sign(std::string&) override {}

  void finish(const RequestRecord& record, std::string& out) override {
    Json body = options_.frame.open();
    Json list = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Json logprobs;
      if (options_.logprobs) logprobs = {{"content", std::move(messages_[i].scores)}, {"refusal", nullptr}};
      list.push_back({{"index", i},
                      {"message", message_json(messages_[i])},
                      {"logprobs", std::move(logprobs)},
                      {"finish_reason", choices_[i].finish}});
      if (options_.drafts) list.back()["drafts"] = std::move(messages_[i].drafts);
    }
    body["choices"] = std::move(list);
    body["usage"] = usage_json(record);
    options_.frame.close(body, record);
    out += to_text(body);
  }

  void fail(const ApiError&, const RequestRecord&, std::string&) override {}
  int calls() const override { return ChatStream::count_calls(choices_); }

 private:
  struct Message {
    std::string text, reasoning;
    std::vector<ShapedCall> calls;
    Json scores = Json::array(), drafts = Json::array();
  };

  static Json message_json(const Message& message) {
    Json json{{"role", "assistant"}, {"content", message.text}, {"refusal", nullptr}};
    if (message.text.empty() && !message.calls.empty()) json["content"] = nullptr;
    if (!message.reasoning.empty()) add_reasoning(json, message.reasoning);
    if (message.calls.empty()) return json;
    Json calls = Json::array();
    for (const ShapedCall& call : message.calls) {
      calls.push_back({{"id", call.id},
                       {"type", "function"},
                       {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    json["tool_calls"] = std::move(calls);
    return json;
  }

  ChatReplyOptions options_;
  std::vector<Choice> choices_;
  std::vector<Message> messages_;
};

}  // namespace

ReplyShaper chat_shaper(const ChatReplyOptions& options, std::string_view word, int choice) {
  const std::string& id = options.frame.id;
  std::string prefix = fmt::format("{}{}", word, id.substr(id.find_last_of("-_") + 1));
  if (choice > 0) prefix += fmt::format("c{}", choice);
  return ReplyShaper({.tools = options.tools,
                      .parallel_calls = options.parallel_calls,
                      .scores = options.logprobs,
                      .call_token = options.tokenizer->id_of(text::mark::kToolCall).value_or(-1),
                      .begun = options.begun,
                      .in_call = options.in_call,
                      .call_prefix = std::move(prefix)});
}

std::unique_ptr<ReplyWriter> chat_stream(ChatReplyOptions options) {
  return std::make_unique<ChatStream>(std::move(options));
}

std::unique_ptr<ReplyWriter> whole_chat(ChatReplyOptions options) {
  return std::make_unique<WholeChat>(std::move(options));
}

}  // namespace slip::server::api
