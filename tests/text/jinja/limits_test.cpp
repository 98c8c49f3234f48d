// Hostile templates end with an error that says which limit they met. No test looks at a clock: limits are
// counts.
#include <gtest/gtest.h>

#include "text/jinja/template.h"

namespace slip::text::jinja {
namespace {

std::string fault(std::string_view source, std::string_view context = "{}") {
  try {
    render_json(source, "t", context, {});
  } catch (const TemplateError& error) {
    return std::string(error.type());
  }
  return "none";
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Limits, loops_that_never_end_are_stopped_by_the_count_of_steps) {
  EXPECT_EQ(fault("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
            "OverflowError");
  EXPECT_EQ(
      fault("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}"),
      "OverflowError");
}

TEST(Limits, a_search_costs_no_more_steps_behind_what_it_found) {
  const std::string source =
      "{% for i in range(5000) %}{% set ns = namespace(found=false) %}{% for j in range(i, 5000) -%}"
      "{% if not ns.found %}{% if j >= i %}{% set ns.found = true %}{% endif %}{% endif %}"
      "{%- endfor %}{% endfor %}done";
  EXPECT_EQ(render_json(source, "t", "{}", {}).bytes, "done") << "it would take 12 million rounds";
}

TEST(Limits, text_and_lists_that_grow_are_stopped_by_memory_or_steps) {
  EXPECT_EQ(fault("{{ 'a' * 1000000000 }}"), "OverflowError");
  EXPECT_EQ(fault("{{ 'a' * 30000000 * 100000000000 }}"), "MemoryError");
  EXPECT_EQ(fault("{{ 'x'.ljust(1000000000) }}"), "MemoryError");
  EXPECT_EQ(fault("{% set ns = namespace(s='abcdefgh') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}"
                  "{% endfor %}{{ ns.s|length }}"),
            "MemoryError");
  EXPECT_EQ(fault("{% set s = 'a' * 10000 %}{{ s.replace('a', s)|length }}"), "MemoryError");
  EXPECT_EQ(fault("{{ [[[1]]]|tojson(indent=1000000000) }}"), "MemoryError");
}

TEST(Limits, recursion_is_stopped_by_its_depth) {
  EXPECT_EQ(fault("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "RecursionError");
  EXPECT_EQ(fault("{{ " + repeated("(", 5000)), "RecursionError");
  EXPECT_EQ(fault(repeated("{% if true %}", 5000)), "RecursionError");
  EXPECT_EQ(fault("{{ " + repeated("not ", 5000) + "1 }}"), "RecursionError");
  EXPECT_EQ(fault("{{ x" + repeated("|upper", 5000) + " }}"), "RecursionError");
}

TEST(Limits, recursion_that_real_schemas_need_passes) {
  EXPECT_EQ(fault("{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(200) }}"),
            "none");
}

TEST(Limits, grow_with_the_context) {
  // A loop over all pairs of characters of a long text.
  const std::string context = R"({"x":")" + repeated("a", 3000) + "\"}";
  EXPECT_EQ(fault("{% for i in x %}{% for j in x[:200] %}{% endfor %}{% endfor %}", context), "none");
}

TEST(Limits, a_source_beyond_a_megabyte_is_refused) {
  EXPECT_THROW(Template::parse(std::string(Template::kLongestSource + 1, 'x'), "t"), Error);
  EXPECT_EQ(Template::parse(std::string(1000, 'x'), "t").render(Context(), {}).bytes.size(), 1000u);
}

TEST(Limits, no_attribute_of_the_host_is_reachable) {
  EXPECT_EQ(fault("{{ ''.__class__.__mro__[1].__subclasses__() }}"), "SecurityError");
  EXPECT_EQ(fault("{{ namespace.__init__.__globals__ }}"), "SecurityError");
  EXPECT_EQ(fault("{{ x.append(1) }}", R"({"x":[]})"), "SecurityError");
  EXPECT_EQ(fault("{{ '{0.__class__.__mro__}'.format(1) }}"), "SecurityError");
}

}  // namespace
}  // namespace slip::text::jinja
