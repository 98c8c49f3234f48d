#include "server/api/responses_reply.h"

#include <fmt/format.h>

#include <ctime>
#include <optional>

namespace slip::server::api {
namespace {

using engine::FinishReason;
using Kind = text::ReplyEvent::Kind;

Json usage_of(const RequestRecord& record) {
  const RequestRecord::Totals sum = record.totals();
  return {{"input_tokens", sum.prompt},
          {"input_tokens_details", {{"cached_tokens", sum.cached}}},
          {"output_tokens", sum.output},
          {"output_tokens_details", {{"reasoning_tokens", sum.reasoning}}},
          {"total_tokens", sum.prompt + sum.output}};
}

class ResponsesReply final : public ReplyWriter {
 public:
  explicit ResponsesReply(ResponsesReplyOptions options)
      : options_(std::move(options)), shaper_(chat_shaper(options_.chat, "call_")) {}

  bool streams() const override { return options_.stream; }

  bool add(size_t, const engine::Delta& delta, std::string& out) override {
    if (delta.of_prompt) return true;
    const Shaped shaped = shaper_.add(delta);
    for (const Score& score : shaped.scores) scores_.push_back(score_json(*options_.chat.tokenizer, score));
    for (const Shaped::Item& item : shaped.items) {
      begin_once(out);
      add_item(item, out);
    }
    if (delta.finish != FinishReason::kNone) finish_ = delta.finish;
    return !shaped.cancel;
  }

  void life_sign(std::string& out) override {
    if (!begin_once(out))
      tell({{"type", "response.in_progress"}, {"response", response("in_progress")}}, out);
  }

  void finish(const RequestRecord& record, std::string& out) override {
    begin_once(out);
    const bool cut = shaper_.ending(finish_) == Ending::kLength;
    close(cut ? "incomplete" : "completed", out);
    Json whole = response(cut ? "incomplete" : "completed");
    whole["completed_at"] = std::time(nullptr);
    if (cut) whole["incomplete_details"] = {{"reason", "max_output_tokens"}};
    whole["usage"] = usage_of(record);
    options_.chat.frame.close(whole, record);
    if (!options_.stream) {
      out += to_text(whole);
      return;
    }
    tell({{"type", cut ? "response.incomplete" : "response.completed"}, {"response", std::move(whole)}}, out);
  }

  void fail(const ApiError& error, const RequestRecord& record, std::string& out) override {
    begin_once(out);
    close("incomplete", out);
    Json whole = response("failed");
    whole["error"] = {{"code", error.code.empty() ? "server_error" : error.code}, {"message", error.what()}};
    whole["usage"] = usage_of(record);
    tell({{"type", "response.failed"}, {"response", std::move(whole)}}, out);
  }

  int calls() const override { return shaper_.calls(); }

 private:
  /// An item that is still written.
  struct Open {
    Kind kind = Kind::kText;
    std::string id;
    std::string text = {};
    Json scores = Json::array();
  };

  void tell(Json event, std::string& out) {
    if (!options_.stream) return;
    event["sequence_number"] = sequence_++;
    append_named_event(out, event);
  }
  /// An event of the open item.
  void tell_of(const char* type, Json more, std::string& out) {
    Json event{{"type", type}, {"item_id", open_->id}, {"output_index", output_.size()}};
    event.update(more);
    tell(std::move(event), out);
  }

  Json response(const char* status) const {
    const ReplyFrame& frame = options_.chat.frame;
    Json json{{"id", frame.id},
              {"object", "response"},
              {"created_at", frame.created},
              {"status", status},
              {"background", false},
              {"error", nullptr},
              {"incomplete_details", nullptr},
              {"model", frame.model},
              {"output", output_},
              {"parallel_tool_calls", options_.chat.parallel_calls},
              {"previous_response_id", nullptr},
              {"service_tier", "default"},
              {"store", false},
              {"truncation", "disabled"},
              {"usage", nullptr}};
    json.update(Json(options_.asked));
    return json;
  }

  /// False when the response has begun already.
  bool begin_once(std::string& out) {
    if (begun_) return false;
    begun_ = true;
    tell({{"type", "response.created"}, {"response", response("in_progress")}}, out);
    tell({{"type", "response.in_progress"}, {"response", response("in_progress")}}, out);
    return true;
  }

  std::string item_id(const char* word) const {
    const std::string& id = options_.chat.frame.id;
    return fmt::format("{}_{}_{}", word, id.substr(id.find('_') + 1), output_.size());
  }

  void add_item(const Shaped::Item& item, std::string& out) {
    if (item.kind == Kind::kToolCall) {
      close("completed", out);
      add_call(item.call, out);
      return;
    }
    if (!open_ || open_->kind != item.kind) {
      close("completed", out);
      open(item.kind, out);
    }
    open_->text += item.text;
    if (item.kind == Kind::kReasoning) {
      tell_of(options_.summary ? "response.reasoning_summary_text.delta" : "response.reasoning_text.delta",
              {{part_index(), 0}, {"delta", item.text}}, out);
    } else {
      tell_of("response.output_text.delta",
              {{"content_index", 0}, {"delta", item.text}, {"logprobs", scores_}}, out);
      for (Json& score : scores_) open_->scores.push_back(std::move(score));
      scores_ = Json::array();
    }
  }

  // Thoughts come as a summary or as content; only the names differ.
  const char* part_index() const {
    return open_->kind == Kind::kReasoning && options_.summary ? "summary_index" : "content_index";
  }
  Json part_json() const {
    if (open_->kind == Kind::kText)
      return {{"type", "output_text"},
              {"text", open_->text},
              {"annotations", Json::array()},
              {"logprobs", open_->scores}};
    return {{"type", options_.summary ? "summary_text" : "reasoning_text"}, {"text", open_->text}};
  }

  Json item_json(const char* status, bool with_part) const {
    Json parts = Json::array();
    if (with_part) parts.push_back(part_json());
    if (open_->kind == Kind::kText) {
      return {{"id", open_->id},
              {"type", "message"},
              {"status", status},
              {"role", "assistant"},
              {"content", parts}};
    }
    Json json{{"id", open_->id}, {"type", "reasoning"}, {"summary", Json::array()}};
    json[options_.summary ? "summary" : "content"] = parts;
    if (options_.encrypted && with_part) json["encrypted_content"] = std::string(kThoughtMark) + open_->text;
    return json;
  }

  void open(Kind kind, std::string& out) {
    open_ = Open{.kind = kind, .id = item_id(kind == Kind::kText ? "msg" : "rs")};
    tell({{"type", "response.output_item.added"},
          {"output_index", output_.size()},
          {"item", item_json("in_progress", false)}},
         out);
    const bool summary = kind == Kind::kReasoning && options_.summary;
    tell_of(summary ? "response.reasoning_summary_part.added" : "response.content_part.added",
            {{part_index(), 0}, {"part", part_json()}}, out);
  }

  void close(const char* status, std::string& out) {
    if (!open_) return;
    for (Json& score : scores_) open_->scores.push_back(std::move(score));
    scores_ = Json::array();
    const bool text = open_->kind == Kind::kText, summary = !text && options_.summary;
    Json done{{part_index(), 0}, {"text", open_->text}};
    if (text) done["logprobs"] = open_->scores;
    tell_of(text      ? "response.output_text.done"
            : summary ? "response.reasoning_summary_text.done"
                      : "response.reasoning_text.done",
            std::move(done), out);
    tell_of(summary ? "response.reasoning_summary_part.done" : "response.content_part.done",
            {{part_index(), 0}, {"part", part_json()}}, out);
    end_item(item_json(status, true), out);
    open_.reset();
  }

  void end_item(Json item, std::string& out) {
    tell({{"type", "response.output_item.done"}, {"output_index", output_.size()}, {"item", item}}, out);
    output_.push_back(std::move(item));
  }

  // A call is whole when it comes, so all of its events follow each other.
  void add_call(const ShapedCall& call, std::string& out) {
    const ResponsesTool tool = tool_of(call.name);
    const char* field = tool.custom ? "input" : "arguments";
    const std::string words = tool.custom ? custom_input(call.arguments) : call.arguments;
    open_ = Open{.kind = Kind::kToolCall, .id = item_id(tool.custom ? "ctc" : "fc")};
    Json item{{"id", open_->id},         {"type", tool.custom ? "custom_tool_call" : "function_call"},
              {"status", "in_progress"}, {"call_id", call.id},
              {"name", tool.name},       {field, ""}};
    if (!tool.space.empty()) item["namespace"] = tool.space;
    tell({{"type", "response.output_item.added"}, {"output_index", output_.size()}, {"item", item}}, out);
    const std::string event =
        tool.custom ? "response.custom_tool_call_input" : "response.function_call_arguments";
    tell_of((event + ".delta").c_str(), {{"delta", words}}, out);
    Json done{{field, words}};
    if (!tool.custom) done["name"] = tool.name;
    tell_of((event + ".done").c_str(), std::move(done), out);
    item["status"] = "completed";
    item[field] = words;
    end_item(std::move(item), out);
    open_.reset();
  }

  /// A call of a tool that was not offered goes out under the name the model wrote.
  ResponsesTool tool_of(const std::string& name) const {
    for (size_t i = 0; i < options_.tools.size(); ++i) {
      if (options_.chat.tools[i].name == name) return options_.tools[i];
    }
    return {.name = name};
  }
  static std::string custom_input(const std::string& arguments) {
    const Json value = Json::parse(arguments);
    const auto input = value.find("input");
    return input != value.end() && input->is_string() ? input->get<std::string>() : arguments;
  }

  ResponsesReplyOptions options_;
  ReplyShaper shaper_;
  FinishReason finish_ = FinishReason::kNone;
  bool begun_ = false;
  int sequence_ = 0;
  Json output_ = Json::array();  // items that are complete
  std::optional<Open> open_;
  Json scores_ = Json::array();  // that wait for text
};

}  // namespace

std::unique_ptr<ReplyWriter> responses_reply(ResponsesReplyOptions options) {
  return std::make_unique<ResponsesReply>(std::move(options));
}

}  // namespace slip::server::api
