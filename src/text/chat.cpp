#include "text/chat.h"

#include <utility>

#include "text/tool_syntax.h"
#include "text/utf8.h"

namespace slip::text {
namespace {

// The assistant's own earlier thinking is no part of the history: of each stretch that ends with <channel|>,
// only what stands before <|channel> is kept.
std::string without_thoughts(std::string_view text) {
  std::string kept;
  while (true) {
    const size_t end = text.find(mark::kChannelEnd);
    const std::string_view stretch = text.substr(0, end);
    kept += stretch.substr(0, stretch.find(mark::kChannel));
    if (end == std::string_view::npos) return kept;
    text.remove_prefix(end + mark::kChannelEnd.size());
  }
}

// A developer's word is the system turn when it comes first; later it keeps its name, as in the template.
std::string_view role_name(Role role) {
  switch (role) {
    case Role::kSystem: return "system";
    case Role::kDeveloper: return "developer";
    case Role::kAssistant: return "model";
    case Role::kTool: return "tool";
    case Role::kUser: break;
  }
  return "user";
}

std::string_view media_mark(ContentPart::Kind kind) {
  switch (kind) {
    case ContentPart::Kind::kImage: return mark::kImage;
    case ContentPart::Kind::kAudio: return mark::kAudio;
    case ContentPart::Kind::kVideo: return mark::kVideo;
    case ContentPart::Kind::kText: break;
  }
  return {};
}

class Renderer {
 public:
  Renderer(std::span<const Turn> turns, std::span<const Tool> tools, const PromptOptions& options)
      : turns_(turns), tools_(tools), options_(options) {}

  std::vector<PromptPart> render() {
    out_.control(mark::kBos);
    size_t first = system_turn();
    size_t last_user = 0;
    for (size_t i = first; i < turns_.size(); ++i) {
      if (turns_[i].role == Role::kUser) last_user = i + 1;
    }
    const Turn* previous = nullptr;
    for (size_t i = first; i < turns_.size(); ++i) {
      if (turns_[i].role == Role::kTool) continue;  // shown with the turn that called it
      const bool continues =
          turns_[i].role == Role::kAssistant && previous != nullptr && previous->role == Role::kAssistant;
      if (!continues) open(role_name(turns_[i].role));
      turn(i, i >= last_user);
      previous = &turns_[i];
    }
    // Behind a call or its answer the model goes on. The template leaves the generation prompt out there even
    // when words behind the answer have closed the turn.
    if (options_.add_generation_prompt && last_ == Last::kText) generation_prompt();
    return out_.take();
  }

 private:
  void open(std::string_view role) {
    out_.control(mark::kTurn);
    out_.text(role);
    out_.text("\n");
  }

  void close() {
    out_.control(mark::kTurnEnd);
    out_.text("\n");
  }

  /// The index of the first turn that is not part of it.
  size_t system_turn() {
    const bool spoken =
        !turns_.empty() && (turns_[0].role == Role::kSystem || turns_[0].role == Role::kDeveloper);
    if (!spoken && tools_.empty() && !options_.thinking) return 0;
    open(role_name(Role::kSystem));
    if (options_.thinking) {
      out_.control(mark::kThink);
      out_.text("\n");
    }
    if (spoken) {
      out_.text(trim(turns_[0].text));
      for (const ContentPart& part : turns_[0].parts) {
        out_.text(trim(part.text));
        out_.text(" ");
      }
    }
    for (const Tool& tool : tools_) write_declaration(tool, out_);
    close();
    return spoken ? 1 : 0;
  }

  void turn(size_t index, bool thoughts_are_kept) {
    const Turn& turn = turns_[index];
    last_ = Last::kText;
    if (thoughts_are_kept && !turn.reasoning.empty() && !turn.calls.empty()) {
      out_.control(mark::kChannel);
      out_.text("thought\n");
      out_.text(turn.reasoning);
      out_.text("\n");
      out_.control(mark::kChannelEnd);
    }
    for (const ToolCall& call : turn.calls) write_call(call, out_);
    if (!turn.calls.empty()) last_ = Last::kCall;
    const bool answered = turn.answers.empty() ? !turn.calls.empty() && answers(index) : own_answers(turn);
    if (answered) last_ = Last::kAnswer;
    // The template puts what was said before the calls behind their answers.
    const bool said_something = content(turn);
    if (last_ == Last::kCall && !answered) {
      out_.control(mark::kToolResponse);
    } else if (!answered || said_something) {
      close();
    }
  }

  bool own_answers(const Turn& turn) {
    for (const ToolAnswer& answer : turn.answers) {
      write_response(answer.name.empty() ? "unknown" : answer.name, answer.result, out_);
    }
    return true;
  }

  /// Whether there were any.
  bool answers(size_t caller) {
    size_t i = caller + 1;
    for (; i < turns_.size() && turns_[i].role == Role::kTool; ++i) {
      const Turn& answer = turns_[i];
      const std::string_view name = answering_tool(turns_[caller], answer);
      if (answer.parts.empty()) {
        write_response(name, answer.result.is_null() ? nlohmann::json(answer.text) : answer.result, out_);
        continue;
      }
      std::string text;
      for (const ContentPart& part : answer.parts) text += part.text;
      write_response(name, text, out_);
      for (const ContentPart& part : answer.parts) {
        if (part.kind != ContentPart::Kind::kText) out_.control(media_mark(part.kind));
      }
    }
    return i > caller + 1;
  }

  static std::string_view answering_tool(const Turn& caller, const Turn& answer) {
    std::string_view name = answer.name.empty() ? std::string_view("unknown") : answer.name;
    // The last one counts, also among calls and answers that have no ids.
    for (const ToolCall& call : caller.calls) {
      if (call.id == answer.call_id) name = call.name;
    }
    return name;
  }

  /// Whether there was any.
  bool content(const Turn& turn) {
    bool any = words(turn, turn.text);
    for (const ContentPart& part : turn.parts) {
      if (part.kind == ContentPart::Kind::kText) {
        any |= words(turn, part.text);
      } else {
        out_.control(media_mark(part.kind));
        last_ = Last::kText;
        any = true;
      }
    }
    return any;
  }

  bool words(const Turn& turn, const std::string& text) {
    const std::string kept = turn.role == Role::kAssistant ? without_thoughts(text) : text;
    const std::string_view trimmed = trim(kept);
    out_.text(trimmed);
    return !trimmed.empty();
  }

  void generation_prompt() {
    open(role_name(Role::kAssistant));
    if (options_.thinking || !options_.empty_thought_block) return;
    out_.control(mark::kChannel);
    out_.text("thought\n");
    out_.control(mark::kChannelEnd);
  }

  std::span<const Turn> turns_;
  std::span<const Tool> tools_;
  const PromptOptions& options_;
  PromptWriter out_;
  /// What the last turn wrote last, its closing words aside.
  enum class Last { kText, kCall, kAnswer };
  Last last_ = Last::kText;
};

std::vector<PromptPart> render(std::span<const Turn> turns, std::span<const Tool> tools,
                               const PromptOptions& options) {
  if (!options.skip_stray_answers) check_tool_answers(turns);
  return Renderer(turns, tools, options).render();
}

}  // namespace

std::vector<PromptPart> render_chat(const Conversation& conversation, PromptOptions options) {
  return render(conversation.turns, conversation.tools, options);
}

std::string render_prompt(std::span<const Turn> turns, PromptOptions options) {
  return joined(render(turns, {}, options));
}

std::vector<int> encode_chat(const Tokenizer& tokenizer, std::span<const Turn> turns, PromptOptions options) {
  return encode_prompt(tokenizer, render(turns, {}, options));
}

}  // namespace slip::text
