// Renders templates for a referee: reads JSON lines {"template", "context", "now"} and answers each with
// {"output", "spans"} or {"error": {"type", "message", "line", "column"}}. A span is [end, is the
// template's]. {"native": "large" or "small"} in place of a template asks the native renderer. With a
// tokenizer the answers have "ids". With a file as argument it renders that with the context from standard
// input, as a command would:
//
//   jinja_render [--tokenizer FILE]       lines in, lines out
//   jinja_render TEMPLATE.jinja [NOW]     text out; an error names jinja2's class first, on standard error
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "text/chat.h"
#include "text/jinja/template.h"

namespace {

using slip::text::Origin;
using slip::text::Rendered;
namespace jinja = slip::text::jinja;
using nlohmann::json;

constexpr const char* kDefaultTime = "2026-11-19T12:34:56";

Rendered rendered_natively(const nlohmann::ordered_json& context, bool empty_thought) {
  namespace text = slip::text;
  const auto list = [&](const char* key) { return context.contains(key) ? context[key].dump() : ""; };
  Rendered rendered;
  for (const text::PromptPart& part :
       text::render_chat({text::parse_messages(list("messages")), text::parse_tools(list("tools"))},
                         {.empty_thought_block = empty_thought,
                         .add_generation_prompt = context.value("add_generation_prompt", true),
                         .thinking = context.value("enable_thinking", json()) == true,
                         .skip_stray_answers = true})) {
    rendered.append(part.text, part.is_control ? Origin::kTemplate : Origin::kForeign);
  }
  return rendered;
}

json answer(const std::string& line, const slip::text::Tokenizer* tokenizer) {
  try {
    // The context is cut out as text, so that its numbers and the order of its keys stay what they are.
    const auto whole = nlohmann::ordered_json::parse(line);
    const std::string now = whole.value("now", kDefaultTime);
    const auto& context = whole.at("context");
    const Rendered rendered = whole.contains("native")
                                  ? rendered_natively(context, whole["native"] == "large")
                                  : jinja::render_json(whole.at("template").get<std::string>(), "template",
                                                       context.dump(), {.now = jinja::parse_moment(now)});
    json spans = json::array();
    for (const auto& span : rendered.spans) spans.push_back({span.end, span.origin == Origin::kTemplate});
    json made = {{"output", rendered.bytes}, {"spans", std::move(spans)}};
    if (tokenizer != nullptr) made["ids"] = slip::text::encode(*tokenizer, rendered);
    return made;
  } catch (const jinja::TemplateError& error) {
    return {{"error",
             {{"type", error.type()},
              {"message", error.detail()},
              {"line", error.place().line},
              {"column", error.place().column}}}};
  } catch (const std::exception& error) {
    return {{"error", {{"type", "Error"}, {"message", error.what()}}}};
  }
}

int render_file(const char* path, const char* now) {
  std::ifstream file(path, std::ios::binary);
  const std::string source{std::istreambuf_iterator<char>(file), {}};
  const std::string context{std::istreambuf_iterator<char>(std::cin), {}};
  try {
    const Rendered rendered = jinja::render_json(source, path, context, {.now = jinja::parse_moment(now)});
    std::fwrite(rendered.bytes.data(), 1, rendered.bytes.size(), stdout);
    return 0;
  } catch (const jinja::TemplateError& error) {
    std::fprintf(stderr, "%s: %s\n", std::string(error.type()).c_str(), error.what());
    return error.exit_code();
  } catch (const slip::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<slip::text::Tokenizer> tokenizer;
  if (argc == 3 && std::string_view(argv[1]) == "--tokenizer") {
    tokenizer = slip::text::Tokenizer::load(argv[2]);
  } else if (argc > 1) {
    return render_file(argv[1], argc > 2 ? argv[2] : kDefaultTime);
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::cout
        << answer(line, tokenizer ? &*tokenizer : nullptr).dump(-1, ' ', true, json::error_handler_t::replace)
        << std::endl;
  }
  return 0;
}
