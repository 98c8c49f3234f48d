#include "text/chat_render.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"

namespace slip::text {
namespace {

using jinja::Context;
using jinja::Dict;
using jinja::Entry;
using jinja::Kind;
using jinja::Value;

/// Makes what a template sees of a conversation, in the context's memory.
class ContextWriter {
 public:
  explicit ContextWriter(Context& context) : context_(context), heap_(context.heap()) {}

  // From JSON: what the caller wrote, put in order.

  Value messages(const Value& list) {
    if (!list.is(Kind::kList)) fail_usage("\"messages\" must be a list");
    return each(list, [&](const Value& message, size_t i) {
      return this->message(message, fmt::format("messages[{}]", i));
    });
  }

  Value tools(const Value& list) {
    if (list.is_none()) return list;
    if (!list.is(Kind::kList)) fail_usage("\"tools\" must be a list");
    return list.items().empty() ? Value::none() : list;
  }

  // From a conversation that was read before.

  Value message(const Turn& turn, size_t i) {
    const std::string where = fmt::format("messages[{}]", i);
    if (!turn.source.empty()) return message(context_.parse_value(turn.source, where), where);
    Dict* message = object();
    put(*message, "role", context_.text(name_of(turn.role)));
    if (!turn.name.empty()) put(*message, "name", context_.text(turn.name));
    if (!turn.call_id.empty()) put(*message, "tool_call_id", context_.text(turn.call_id));
    if (!turn.parts.empty()) {
      std::vector<Value> parts;
      for (const ContentPart& part : turn.parts) parts.push_back(this->part(part));
      put(*message, "content", jinja::make_list(heap_, parts));
    } else {
      put(*message, "content",
          turn.result.is_null() ? context_.text(turn.text) : context_.value_of(turn.result));
    }
    if (!turn.reasoning.empty()) put(*message, "reasoning", context_.text(turn.reasoning));
    if (!turn.answers.empty()) put(*message, "tool_responses", answers(turn));
    if (!turn.calls.empty()) {
      std::vector<Value> calls;
      for (const ToolCall& call : turn.calls) calls.push_back(this->call(call));
      put(*message, "tool_calls", jinja::make_list(heap_, calls));
    }
    return Value::of(message);
  }

  Value tool(const Tool& tool, size_t i) {
    if (!tool.source.empty()) return context_.parse_value(tool.source, fmt::format("tools[{}]", i));
    Dict* function = object();
    put(*function, "name", context_.text(tool.name));
    put(*function, "description", context_.text(tool.description));
    if (!tool.parameters.is_null()) put(*function, "parameters", context_.value_of(tool.parameters));
    if (!tool.response.is_null()) put(*function, "response", context_.value_of(tool.response));
    return wrapped(function, {});
  }

 private:
  Dict* object() { return heap_.make<Dict>(); }
  void put(Dict& dict, std::string_view key, const Value& value) { jinja::set(heap_, dict, key, value); }

  template <typename Change>
  Value each(const Value& list, Change change) {
    std::vector<Value> items;
    for (size_t i = 0; i < list.items().size(); ++i) items.push_back(change(list.items()[i], i));
    return jinja::make_list(heap_, items);
  }

  static std::string_view name_of(Role role) {
    switch (role) {
      case Role::kSystem: return "system";
      case Role::kDeveloper: return "developer";
      case Role::kUser: return "user";
      case Role::kAssistant: return "assistant";
      case Role::kTool: break;
    }
    return "tool";
  }

  Value part(const ContentPart& part) {
    static constexpr std::string_view kTypes[] = {"text", "image", "audio", "video"};
    Dict* made = object();
    put(*made, "type", context_.text(kTypes[static_cast<size_t>(part.kind)]));
    if (part.kind == ContentPart::Kind::kText) put(*made, "text", context_.text(part.text));
    return Value::of(made);
  }

  Value answers(const Turn& turn) {
    std::vector<Value> made;
    for (const ToolAnswer& answer : turn.answers) {
      Dict* one = object();
      if (!answer.name.empty()) put(*one, "name", context_.text(answer.name));
      put(*one, "response", context_.value_of(answer.result));
      made.push_back(Value::of(one));
    }
    return jinja::make_list(heap_, made);
  }

  Value wrapped(const Dict* function, std::string_view id) {
    Dict* made = object();
    if (!id.empty()) put(*made, "id", context_.text(id));
    put(*made, "type", context_.text("function"));
    put(*made, "function", Value::of(function));
    return Value::of(made);
  }

  Value call(const ToolCall& call) {
    Dict* function = object();
    put(*function, "name", context_.text(call.name));
    if (!call.arguments.is_object()) {
      fail_usage("the arguments of the call of \"{}\" are no JSON object; send one", call.name);
    }
    put(*function, "arguments", context_.value_of(call.arguments));
    return wrapped(function, call.id);
  }

  Value message(const Value& message, const std::string& where) {
    if (!message.is(Kind::kDict)) fail_usage("{}: a message must be an object with a \"role\"", where);
    const Value* role = jinja::find(*message.dict(), "role");
    if (role == nullptr || !role->is_string()) fail_usage("{}: a message needs a \"role\", a string", where);
    Dict* made = jinja::copy(heap_, *message.dict());
    if (role->view() == "model") put(*made, "role", context_.text("assistant"));
    if (const Value* content = jinja::find(*made, "content");
        content != nullptr && content->is(Kind::kList)) {
      put(*made, "content", each(*content, [&](const Value& part, size_t) { return this->part(part); }));
    }
    if (const Value* calls = jinja::find(*made, "tool_calls"); calls != nullptr && !calls->is_none()) {
      if (!calls->is(Kind::kList)) fail_usage("{}: \"tool_calls\" must be a list", where);
      put(*made, "tool_calls", each(*calls, [&](const Value& call, size_t i) {
        return this->call(call, fmt::format("{}.tool_calls[{}]", where, i));
      }));
    }
    return Value::of(made);
  }

  Value part(const Value& part) {
    static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
        {"image_url", "image"}, {"input_audio", "audio"}, {"video_url", "video"}};
    const Value* type = part.is(Kind::kDict) ? jinja::find(*part.dict(), "type") : nullptr;
    if (type == nullptr || !type->is_string()) return part;
    for (const auto& [theirs, ours] : kNames) {
      if (type->view() != theirs) continue;
      Dict* made = jinja::copy(heap_, *part.dict());
      put(*made, "type", context_.text(ours));
      return Value::of(made);
    }
    return part;
  }

  Value call(const Value& call, const std::string& where) {
    const Value* function = call.is(Kind::kDict) ? jinja::find(*call.dict(), "function") : nullptr;
    if (function == nullptr || !function->is(Kind::kDict)) {
      fail_usage("{}: a tool call must be an object with a \"function\"", where);
    }
    const Value* given = jinja::find(*function->dict(), "arguments");
    Dict* changed = jinja::copy(heap_, *function->dict());
    put(*changed, "arguments", arguments(given, *function->dict(), where));
    Dict* made = jinja::copy(heap_, *call.dict());
    put(*made, "function", Value::of(changed));
    return Value::of(made);
  }

  Value arguments(const Value* given, const Dict& function, const std::string& where) {
    const Value* name = jinja::find(function, "name");
    const std::string_view called = name != nullptr && name->is_string() ? name->view() : "?";
    if (given == nullptr || given->is_none()) return Value::of(object());
    if (given->is(Kind::kDict)) return *given;
    if (given->is_string() && given->view().empty()) return Value::of(object());
    std::string reason;
    if (given->is_string()) {
      try {
        const Value parsed = context_.parse_value(given->view(), "JSON");
        if (parsed.is(Kind::kDict)) return parsed;
      } catch (const Error& error) {
        reason = fmt::format(" ({})", error.what());
      }
    }
    fail_usage("{}: the arguments of the call of \"{}\" are no JSON object{}; send one, or \"\" for none",
               where, called, reason);
  }

  Context& context_;
  jinja::Heap& heap_;
};

constexpr auto kReserved = std::to_array<std::string_view>(
    {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"});

void set_options(Context& context, const ChatRenderOptions& options) {
  if (!options.more.empty()) {
    const Value more = context.parse_value(options.more, "chat_template_kwargs");
    if (!more.is(Kind::kDict)) fail_usage("chat_template_kwargs: must be a JSON object");
    for (const Entry& entry : more.dict()->all()) {
      const std::string_view name = entry.key.view();
      if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
        fail_usage("chat_template_kwargs: \"{}\" is not for the caller to set", name);
      }
      context.set(name, entry.value);
    }
  }
  context.set("bos_token", context.text(options.bos, Origin::kTemplate));
  context.set("eos_token", context.text(options.eos, Origin::kTemplate));
  context.set("add_generation_prompt", Value::of(options.add_generation_prompt));
  if (options.thinking) context.set("enable_thinking", Value::of(*options.thinking));
  context.set("documents", Value::none());
}

}  // namespace

Rendered render_chat(const jinja::Template& chat_template, const Conversation& conversation,
                     const ChatRenderOptions& options) {
  Context context;
  set_options(context, options);
  ContextWriter writer(context);
  std::vector<Value> messages;
  for (const Turn& turn : conversation.turns) messages.push_back(writer.message(turn, messages.size()));
  context.set("messages", jinja::make_list(context.heap(), messages));
  std::vector<Value> tools;
  for (const Tool& tool : conversation.tools) tools.push_back(writer.tool(tool, tools.size()));
  context.set("tools", tools.empty() ? Value::none() : jinja::make_list(context.heap(), tools));
  return chat_template.render(context, {.now = options.now});
}

Rendered render_chat(const jinja::Template& chat_template, std::string_view messages, std::string_view tools,
                     const ChatRenderOptions& options) {
  Context context;
  set_options(context, options);
  ContextWriter writer(context);
  context.set("messages", writer.messages(context.parse_value(messages, "messages")));
  context.set("tools", tools.empty() ? Value::none() : writer.tools(context.parse_value(tools, "tools")));
  return chat_template.render(context, {.now = options.now});
}

}  // namespace slip::text
