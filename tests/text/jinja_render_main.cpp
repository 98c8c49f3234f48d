// Renders templates for a referee: reads JSON lines {"template", "context", "now"} and answers each with
// {"output", "spans"} or {"error": {"type", "message", "line", "column"}}. A span is [end, is the
// template's]. With a file as argument it renders that with the context from standard input, as a command
// would:
//
//   jinja_render                          lines in, lines out
//   jinja_render TEMPLATE.jinja [NOW]     text out; an error names jinja2's class first, on standard error
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/jinja/template.h"

namespace {

using slip::text::Origin;
using slip::text::Rendered;
namespace jinja = slip::text::jinja;
using nlohmann::json;

constexpr const char* kDefaultTime = "2026-11-19T12:34:56";

json answer(const std::string& line) {
  jinja::Context request;
  std::string source;
  std::string now = kDefaultTime;
  std::string context;
  try {
    // The context is cut out as text, so that its numbers and the order of its keys stay what they are.
    const auto whole = nlohmann::ordered_json::parse(line);
    source = whole.at("template").get<std::string>();
    now = whole.value("now", now);
    context = whole.at("context").dump();
    const Rendered rendered =
        jinja::render_json(source, "template", context, {.now = jinja::parse_moment(now)});
    json spans = json::array();
    for (const auto& span : rendered.spans) spans.push_back({span.end, span.origin == Origin::kTemplate});
    return {{"output", rendered.bytes}, {"spans", std::move(spans)}};
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
  if (argc > 1) return render_file(argv[1], argc > 2 ? argv[2] : kDefaultTime);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(line).dump(-1, ' ', true, json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
