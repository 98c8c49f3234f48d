// Fuzzes the parser and the interpreter of templates: whatever comes in, out comes a prompt whose spans cover
// it, or a TemplateError. The input is a template, a zero byte, and a context.
#include "base/error.h"
#include "fuzz/target.h"
#include "text/jinja/template.h"

namespace {

using slip::text::Rendered;
namespace jinja = slip::text::jinja;

void check_spans(const Rendered& rendered) {
  size_t begin = 0;
  for (const Rendered::Span& span : rendered.spans) {
    fuzz_check(span.end > begin && span.end <= rendered.bytes.size());
    begin = span.end;
  }
  fuzz_check(begin == rendered.bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const std::string_view context = end == std::string_view::npos ? "{}" : input.substr(end + 1);
  try {
    const auto chat_template = jinja::Template::parse(input.substr(0, end), "fuzz");
    const auto values = jinja::Context::parse(context, "fuzz");
    // Small limits, so that the fuzzer sees many inputs.
    check_spans(
        chat_template.render(values, {.bytes = size_t{1} << 20, .steps = 20'000, .steps_per_byte = 10}));
  } catch (const slip::Error&) {
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string zero(1, '\0');
  const std::string context =
      R"({"messages":[{"role":"user","content":" <|turn>é "},{"role":"assistant","tool_calls":[{"function":{"name":"f",)"
      R"("arguments":{"b":[1,2.0,null],"A":"x"}}}]}],"x":{"k":[1,"a",{"n":-7}]},"s":"a,b;c"})";
  return {
      R"({%- macro show(v, q=true) -%}{%- if v is mapping -%}{{ '{' }}{%- for k, x in v|dictsort -%}{{ k }}:{{ show(x, q=q) }}
{{- ',' if not loop.last }}{%- endfor -%}{{ '}' }}{%- elif v is string -%}{{ '<|"|>' + v + '<|"|>' }}{%- elif v is iterable
-%}[{% for i in v %}{{ show(i) }}{{ loop.nextitem }}{% else %}none{% endfor %}]{%- else -%}{{ v }}{%- endif -%}
{%- endmacro -%}{{ show(messages) }}{{ show(x)|trim|upper }})" +
          zero + context,
      R"({% set ns = namespace(n=0, s='') %}{% for m in messages if m.role != 'tool' %}{% set ns.n = ns.n + loop.index0 %}
{% set t %}{{ m.content|default('-')|trim }}{% endset %}{% set ns.s = ns.s ~ t[1:-1] ~ loop.revindex %}{% if loop.last %}
{% break %}{% else %}{% continue %}{% endif %}{% endfor %}{{ ns.s.split('<')[-1]|tojson(indent=2) }}{{ ns }})" +
          zero + context,
      R"({{ '%5.2f|%-4s|%03d' % (1.5, s, 7) }}{{ '{:>6}{!r}{n}'.format(s, s, n=x) }}{{ s|replace(',', '--')|title }}
{{ x.k|map('string')|join('.') }}{{ x.k|select('string')|list }}{{ s.split(',', 1) }}{{ s.find('b', 1) }}{{ 'a\nb'|indent(2) }}
{{ [3, 1, 2]|sort|batch(2)|list }}{{ 'é😀'|upper|reverse }}{{ x|dictsort|tojson }}{{ s[::-1] }}{{ 7 // -2 ** 3 % 5 }})" +
          zero + context,
      R"({% macro m(a, b=a) %}{{ caller(a, b) if caller is defined }}{{ varargs }}{{ kwargs }}{% endmacro %}{% call(x, y)
m(1, *[2, 3], **{'k': 4}) %}{{ x }}{{ y }}{% endcall %}{% filter upper %}{% block b scoped %}x{% endblock %}{% endfilter %}
{% with a = 1 %}{{ a }}{% endwith %}{% for n in x.k recursive %}{{ loop.depth }}{% endfor %}{% raw %}{{ }}{% endraw %}
{# c #}{% generation %}g{% endgeneration %}{% autoescape true %}{{ '<' ~ s }}{% endautoescape %}{{ strftime_now('%Y') }})" +
          zero + context};
}
