#include "server/api/completion_reply.h"

#include <algorithm>
#include <cmath>

#include "server/api/draft_report.h"

namespace slip::server::api {
namespace {

using engine::FinishReason;

/// OpenAI's old shape of log-probabilities: four lists side by side. Offsets count characters.
struct ScoreLists {
  Json tokens = Json::array(), logprobs = Json::array(), top = Json::array(), offsets = Json::array();
  bool empty() const { return tokens.empty(); }
  Json take() {
    Json all{{"tokens", std::move(tokens)},
             {"token_logprobs", std::move(logprobs)},
             {"top_logprobs", std::move(top)},
             {"text_offset", std::move(offsets)}};
    *this = {};
    return all;
  }
};

size_t characters(std::string_view bytes) {
  return static_cast<size_t>(std::count_if(
      bytes.begin(), bytes.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// One reply on its way: what text and scores its deltas add.
class Choice {
 public:
  Choice(const CompletionReplyOptions& options, size_t index)
      : options_(&options),
        shaper_({.chat = false}),
        echo_(options.echo ? options.echoes[index] : std::string()) {}

  /// Appends what the delta says to `text`.
  void add(const engine::Delta& delta, std::string& text) {
    if (!echo_.empty() && !(delta.of_prompt && options_->logprobs >= 0)) flush_echo(text);
    const bool of_answer = !delta.of_prompt && delta.token >= 0 && delta.finish != FinishReason::kStopId;
    if (options_->logprobs >= 0 && (delta.of_prompt || (of_answer && options_->answer))) add_score(delta);
    if (!delta.of_prompt && options_->answer) {
      const Shaped shaped = shaper_.add(delta);
      if (options_->drafts) append_drafts(drafts, delta, shaped);
      for (const Shaped::Item& item : shaped.items) text += item.text;
    }
    if (delta.finish != FinishReason::kNone) finish = finish_reason(shaper_.ending(delta.finish));
  }

  ScoreLists scores;
  Json drafts = Json::array();
  const char* finish = "stop";

 private:
  void flush_echo(std::string& text) {
    text += echo_;
    echo_ = {};
  }

  void add_score(const engine::Delta& delta) {
    const std::string token = token_text(*options_->tokenizer, delta.token);
    scores.tokens.push_back(token);
    scores.offsets.push_back(offset_);
    const bool hidden = !options_->spelled && options_->tokenizer->is_special(delta.token);
    if (!hidden) offset_ += characters(token_bytes(*options_->tokenizer, delta.token));
    if (std::isnan(delta.logprob)) {  // nothing stands before the first token of a prompt
      scores.logprobs.push_back(nullptr);
      scores.top.push_back(nullptr);
      return;
    }
    scores.logprobs.push_back(logprob_json(delta.logprob));
    Json top = Json::object();
    for (const sample::TokenLogprob& other : delta.top) {
      const std::string name = token_text(*options_->tokenizer, other.id);
      if (!top.contains(name)) top[name] = logprob_json(other.logprob);
    }
    if (!top.contains(token)) top[token] = logprob_json(delta.logprob);
    scores.top.push_back(std::move(top));
  }

  const CompletionReplyOptions* options_;
  ReplyShaper shaper_;
  std::string echo_;
  size_t offset_ = 0;
};

std::vector<Choice> choices_of(const CompletionReplyOptions& options) {
  std::vector<Choice> choices;
  for (size_t i = 0; i < options.replies; ++i) choices.emplace_back(options, i);
  return choices;
}

class CompletionStream final : public ReplyWriter {
 public:
  explicit CompletionStream(CompletionReplyOptions options)
      : options_(std::move(options)), choices_(choices_of(options_)) {}

  bool streams() const override { return true; }

  bool add(size_t index, const engine::Delta& delta, std::string& out) override {
    std::string text;
    choices_[index].add(delta, text);
    if (!text.empty()) chunk(index, text, nullptr, out);
    return true;
  }

  void life_sign(std::string& out) override { chunk(0, "", nullptr, out); }

  void finish(const RequestRecord& record, std::string& out) override {
    for (size_t i = 0; i < choices_.size(); ++i) {
      const bool last = i + 1 == choices_.size();
      chunk(i, "", choices_[i].finish, out, last ? &record : nullptr);
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

 private:
  void chunk(size_t index, const std::string& text, const char* finish, std::string& out,
             const RequestRecord* record = nullptr) {
    Json choice{{"index", index}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
    if (!choices_[index].scores.empty()) choice["logprobs"] = choices_[index].scores.take();
    if (Json& drafts = choices_[index].drafts; !drafts.empty()) {
      choice["drafts"] = std::move(drafts);
      drafts = Json::array();
    }
    if (finish != nullptr) choice["finish_reason"] = finish;
    Json body = options_.frame.open();
    body["choices"] = Json::array({std::move(choice)});
    if (options_.frame.include_usage) body["usage"] = nullptr;
    if (record != nullptr) options_.frame.close(body, *record);
    append_event(out, body);
  }

  CompletionReplyOptions options_;
  std::vector<Choice> choices_;
};

class WholeCompletion final : public ReplyWriter {
 public:
  explicit WholeCompletion(CompletionReplyOptions options)
      : options_(std::move(options)), choices_(choices_of(options_)), texts_(options_.replies) {}

  bool streams() const override { return false; }
  bool add(size_t index, const engine::Delta& delta, std::string&) override {
    choices_[index].add(delta, texts_[index]);
    return true;
  }
  void life_sign(std::string&) override {}

  void finish(const RequestRecord& record, std::string& out) override {
    Json list = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Json logprobs;
      if (options_.logprobs >= 0) logprobs = choices_[i].scores.take();
      list.push_back({{"index", i},
                      {"text", std::move(texts_[i])},
                      {"logprobs", std::move(logprobs)},
                      {"finish_reason", choices_[i].finish}});
      if (options_.drafts) list.back()["drafts"] = std::move(choices_[i].drafts);
    }
    Json body = options_.frame.open();
    body["choices"] = std::move(list);
    body["usage"] = usage_json(record);
    options_.frame.close(body, record);
    out += to_text(body);
  }

  void fail(const ApiError&, const RequestRecord&, std::string&) override {}

 private:
  CompletionReplyOptions options_;
  std::vector<Choice> choices_;
  std::vector<std::string> texts_;
};

}  // namespace

std::unique_ptr<ReplyWriter> completion_stream(CompletionReplyOptions options) {
  return std::make_unique<CompletionStream>(std::move(options));
}

std::unique_ptr<ReplyWriter> whole_completion(CompletionReplyOptions options) {
  return std::make_unique<WholeCompletion>(std::move(options));
}

}  // namespace slip::server::api
