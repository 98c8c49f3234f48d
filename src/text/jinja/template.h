// Template: a chat template, parsed once and rendered many times, as jinja2 3.1 renders it in the immutable
// sandbox that Hugging Face transformers sets up: trim_blocks and lstrip_blocks on, `break`, `continue` and
// `generation`, transformers' own tojson, raise_exception() and strftime_now().
//
// A rendering tells of every byte whether the template wrote it (rendered.h). Steps, depth, memory and output
// are bounded; what is not supported is an error that names it, never another text. A parsed template is
// never changed, so many threads may render it. Parsing takes about a millisecond, rendering a prompt of
// 40,000 tokens a few.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/jinja/context.h"
#include "text/jinja/interpreter.h"
#include "text/rendered.h"

namespace slip::text::jinja {

/// What stopped a template. The message names the template, the line and the column.
class TemplateError : public Error {
 public:
  struct Place {
    size_t line = 0;  // from 1; 0 when it has no place
    size_t column = 0;
  };
  TemplateError(ErrorKind kind, const std::string& name, const Failure& failure, Place place);

  /// The class that jinja2 or Python gives the error, as in "UndefinedError". "TemplateError" is that of
  /// raise_exception().
  std::string_view type() const { return type_; }
  const std::string& detail() const { return detail_; }
  const Place& place() const { return place_; }

 private:
  std::string_view type_;
  std::string detail_;
  Place place_;
};

/// Limits of a rendering; both grow with the size of the context.
struct RenderOptions {
  Moment now{};
  size_t bytes = size_t{32} << 20;
  size_t bytes_per_byte = 16;
  uint64_t steps = 2'000'000;
  uint64_t steps_per_byte = 50;
};

class Template {
 public:
  /// A longer source is refused: no model's has a tenth of it.
  static constexpr size_t kLongestSource = size_t{1} << 20;

  /// Throws TemplateError (kBadFile). `name` stands for the template in messages.
  static Template parse(std::string_view source, const std::string& name);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  /// Throws TemplateError (kUsage).
  Rendered render(const Context& context, const RenderOptions& options) const;
  /// The file it came from, or what else was said to parse().
  const std::string& name() const;
  const std::string& source() const;

 private:
  struct Tree;
  explicit Template(std::unique_ptr<Tree> tree);
  std::unique_ptr<Tree> tree_;
};

/// "2026-11-19T12:34:56", or the date alone. Throws Error(kUsage).
Moment parse_moment(std::string_view text);

/// A rendering in one call, for commands: the context is one JSON object.
Rendered render_json(std::string_view source, const std::string& name, std::string_view context,
                     const RenderOptions& options);

}  // namespace slip::text::jinja
