#include "text/jinja/template.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace slip::text::jinja {
namespace {

constexpr Limits kParseLimits{.bytes = size_t{32} << 20, .steps = 4'000'000, .depth = 200};

TemplateError::Place place_of(std::string_view source, size_t offset) {
  if (offset > source.size()) return {};
  const std::string_view before = source.substr(0, offset);
  const size_t line_begin = before.rfind('\n') + 1;  // 0 when there is none
  return {static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1, offset - line_begin + 1};
}

std::string sentence(const std::string& name, const Failure& failure, TemplateError::Place place) {
  std::string where = name;
  if (place.line > 0) where += fmt::format(": line {}, column {}", place.line, place.column);
  return fmt::format("{}: {}: {}", where, name_of(failure.fault), failure.message);
}

uint64_t grown(uint64_t base, uint64_t per_byte, uint64_t bytes) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  return base + std::min(per_byte * std::min(bytes, kMost / std::max<uint64_t>(per_byte, 1)), kMost);
}

}  // namespace

TemplateError::TemplateError(ErrorKind kind, const std::string& name, const Failure& failure, Place place)
    : Error(kind, sentence(name, failure, place)),
      type_(name_of(failure.fault)),
      detail_(failure.message),
      place_(place) {}

struct Template::Tree {
  Tree(std::string_view text, std::string called) : name(std::move(called)), source(normalise(text)) {}

  std::string name;
  std::string source;
  Heap heap{kParseLimits};
  Parsed parsed;
};

Template::Template(std::unique_ptr<Tree> tree) : tree_(std::move(tree)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

const std::string& Template::name() const {
  return tree_->name;
}
const std::string& Template::source() const {
  return tree_->source;
}

Template Template::parse(std::string_view source, const std::string& name) {
  if (source.size() > kLongestSource) {
    fail_file("{}: is {} bytes long; a template may have {}", name, source.size(), kLongestSource);
  }
  if (!is_valid_utf8(source)) fail_file("{}: is no valid UTF-8", name);
  auto tree = std::make_unique<Tree>(source, name);
  try {
    tree->parsed = Parser(tree->source, tree->heap).parse();
  } catch (const Failure& failure) {
    throw TemplateError(ErrorKind::kBadFile, name, failure, place_of(tree->source, failure.offset));
  }
  return Template(std::move(tree));
}

Rendered Template::render(const Context& context, const RenderOptions& options) const {
  Heap heap({.bytes = static_cast<size_t>(grown(options.bytes, options.bytes_per_byte, context.bytes())),
             .steps = grown(options.steps, options.steps_per_byte, context.bytes()),
             .depth = Limits().depth});
  const Parsed& parsed = tree_->parsed;
  std::vector<Value> globals(parsed.globals.size());
  for (size_t i = 0; i < globals.size(); ++i) {
    const std::string_view name = parsed.globals[i];
    if (const Value* given = find(context.names(), name)) {
      globals[i] = *given;
    } else if (const Builtin* builtin = find_global(name)) {
      globals[i] = Value::pointing(Kind::kFunction, builtin);
    } else if (name == "self") {
      globals[i] = Value::pointing(Kind::kSelf, this);
    }
  }
  Interpreter interpreter(parsed, heap, globals, options.now);
  try {
    const Text text = interpreter.run();
    Rendered rendered;
    rendered.bytes.reserve(text.size);
    for_each_run(text, [&](std::string_view bytes, Origin origin) { rendered.append(bytes, origin); });
    return rendered;
  } catch (const Failure& failure) {
    const size_t offset = failure.offset == Failure::kNowhere ? interpreter.offset() : failure.offset;
    throw TemplateError(ErrorKind::kUsage, tree_->name, failure, place_of(tree_->source, offset));
  }
}

Moment parse_moment(std::string_view text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  int used = 0;
  const std::string copy(text);
  const int fields = std::sscanf(copy.c_str(), "%4d-%2u-%2u%n", &year, &month, &day, &used);
  bool valid = fields == 3;
  if (valid && static_cast<size_t>(used) < copy.size()) {
    int rest = 0;
    valid = (copy[static_cast<size_t>(used)] == 'T' || copy[static_cast<size_t>(used)] == ' ') &&
            std::sscanf(copy.c_str() + used + 1, "%2d:%2d:%2d%n", &hour, &minute, &second, &rest) == 3 &&
            static_cast<size_t>(used + 1 + rest) == copy.size();
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!valid || !date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 ||
      second > 59) {
    fail_usage("\"{}\" is no time; write it as 2026-11-19T12:34:56", text);
  }
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

Rendered render_json(std::string_view source, const std::string& name, std::string_view context,
                     const RenderOptions& options) {
  return Template::parse(source, name).render(Context::parse(context, "the context"), options);
}

}  // namespace slip::text::jinja
