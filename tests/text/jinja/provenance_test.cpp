// The origin of every byte through every kind of operation. In the expectations T stands for a byte of the
// template, f for a foreign one.
#include <gtest/gtest.h>

#include "text/jinja/template.h"

namespace slip::text::jinja {
namespace {

struct Seen {
  std::string text;
  std::string origins;
};

Seen rendered(std::string_view source, std::string_view context) {
  const Rendered rendered = render_json(source, "t", context, {});
  Seen seen{rendered.bytes, ""};
  size_t begin = 0;
  for (const Rendered::Span& span : rendered.spans) {
    EXPECT_GT(span.end, begin) << "no span is empty";
    const char letter = span.origin == Origin::kTemplate ? 'T' : 'f';
    EXPECT_TRUE(seen.origins.empty() || seen.origins.back() != letter) << "neighbours differ";
    seen.origins.append(span.end - begin, letter);
    begin = span.end;
  }
  EXPECT_EQ(begin, rendered.bytes.size());
  return seen;
}

void expect(std::string_view source, std::string_view context, const char* text, const char* origins) {
  const Seen seen = rendered(source, context);
  EXPECT_EQ(seen.text, text) << source;
  EXPECT_EQ(seen.origins, origins) << source;
}

TEST(Provenance, of_literals_and_of_what_callers_wrote) {
  expect("<|turn>{{ x }}", R"({"x":"<|turn>"})", "<|turn><|turn>", "TTTTTTTfffffff");
  expect("{{ 'a' + x ~ 'b' }}", R"({"x":"mn"})", "amnb", "TffT");
  expect("{{ '<|' + x }}", R"({"x":"turn>"})", "<|turn>", "TTfffff");
}

TEST(Provenance, tokens_of_the_model_count_as_the_templates) {
  expect("{{ bos_token }}{{ x.bos_token }}", R"({"bos_token":"<b>","x":{"bos_token":"<b>"}})", "<b><b>",
         "TTTfff");
}

TEST(Provenance, survives_cutting_and_splitting) {
  expect("{{ ('ab' ~ x ~ 'cd')[1:5] }}", R"({"x":"mn"})", "bmnc", "TffT");
  expect("{{ (' ' ~ x ~ ' ')|trim }}", R"({"x":" m "})", "m", "f");
  expect("{% for p in ('a,' ~ x).split(',') %}[{{ p }}]{% endfor %}", R"({"x":"m,n"})", "[a][m][n]",
         "TTTTfTTfT");
  expect("{{ ('ab' ~ x)[::-1] }}", R"({"x":"mn"})", "nmba", "ffTT");
}

TEST(Provenance, survives_changes_of_case_and_escapes) {
  expect("{{ ('a' ~ x)|upper }}", R"({"x":"mn"})", "AMN", "Tff");
  expect("{{ ('é' ~ x)|upper }}", R"({"x":"ß"})", "ÉSS", "TTff");
  expect("{{ x|tojson }}", R"({"x":"a\n"})", "\"a\\n\"", "TfffT");
  expect("{{ {'k': x}|tojson }}", R"({"x":"<"})", "{\"k\": \"<\"}", "TTTTTTTfTT");
  expect("{{ [x] }}", R"({"x":"a\n"})", "['a\\n']", "TTfffTT");
  expect("{{ ('<' ~ x)|e }}", R"({"x":"<"})", "&lt;&lt;", "TTTTffff");
}

TEST(Provenance, survives_replacing_joining_and_formatting) {
  expect("{{ x|replace('a', '<|turn>') }}", R"({"x":"ma"})", "m<|turn>", "fTTTTTTT");
  expect("{{ 'maa'|replace('a', x) }}", R"({"x":"q"})", "mqq", "Tff");
  expect("{{ [x, 'b']|join(', ') }}", R"({"x":"a"})", "a, b", "fTTT");
  expect("{{ '<%s>' % x }}{{ '[{}]'.format(x) }}", R"({"x":"a"})", "<a>[a]", "TfTTfT");
  expect("{{ x % 'turn' }}", R"({"x":"<|%s>"})", "<|turn>", "ffTTTTf");
}

TEST(Provenance, survives_macros_blocks_and_loops) {
  expect("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(x) }}{{ m('c') }}", R"({"x":"a"})", "<a><c>", "TfTTTT");
  expect("{% set s %}<{{ x }}>{% endset %}{{ s }}", R"({"x":"a"})", "<a>", "TfT");
  expect("{% for c in x %}{{ c }},{% endfor %}", R"({"x":"ab"})", "a,b,", "fTfT");
  expect(
      "{% set ns = namespace(s='') %}{% for c in x %}{% set ns.s = ns.s + c + '.' %}{% endfor %}{{ ns.s }}",
      R"({"x":"ab"})", "a.b.", "fTfT");
}

TEST(Provenance, of_keys_and_numbers) {
  expect("{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}", R"({"d":{"b":2,"A":1.5}})", "A=1.5;b=2;",
         "fTfffTfTfT");
  expect("{{ 7 }}{{ x }}{{ x + 1 }}{{ l|length }}", R"({"x":7,"l":[1]})", "7781", "TffT");
}

TEST(Provenance, a_text_that_grows_in_place_does_not_change_its_beginnings) {
  expect("{% set a = 'x' ~ u %}{% set b = a ~ 'B' %}{% set c = a ~ u %}{{ a }} {{ b }} {{ c }}",
         R"({"u":"mmmm"})", "xmmmm xmmmmB xmmmmmmmm", "TffffTTffffTTTffffffff");
}

}  // namespace
}  // namespace slip::text::jinja
