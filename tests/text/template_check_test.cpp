#include "text/template_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/mapped_file.h"
#include "text/prefix_check.h"

namespace slip::text {
namespace {

using Verdict = CheckResult::Verdict;

std::vector<CheckResult> results_of(std::string_view source) {
  return check_template(jinja::Template::parse(source, "t.jinja"), {});
}

bool says(const std::vector<CheckResult>& results, Verdict verdict, std::string_view words) {
  return std::any_of(results.begin(), results.end(), [&](const CheckResult& result) {
    return result.verdict == verdict && result.finding.find(words) != std::string::npos;
  });
}

constexpr std::string_view kPlain =
    "{{ bos_token }}{% for m in messages %}{{ '<|turn>' + ('model' if m.role == 'assistant' else m.role) + "
    "'\\n' }}"
    "{{ m.content }}{{ '<turn|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|turn>model\\n' }}{% "
    "endif %}";

TEST(TemplateCheck, a_template_that_only_strings_texts_together_keeps_its_prefixes) {
  const auto results = results_of(kPlain);
  EXPECT_TRUE(says(results, Verdict::kPass, "a user's text stays text"));
  EXPECT_TRUE(says(results, Verdict::kPass, "a plain conversation, thinking off"));
  EXPECT_TRUE(says(results, Verdict::kFail, "tools are not declared"));
  EXPECT_TRUE(says(results, Verdict::kNote, "enable_thinking changes nothing"));
}

TEST(TemplateCheck, a_template_that_rewrites_history_is_told_where) {
  const std::string source(kPlain);
  const Conversation conversation{{{.role = Role::kUser, .text = "a"},
                                   {.role = Role::kAssistant, .text = " b"},
                                   {.role = Role::kUser, .text = "c"}}};
  EXPECT_TRUE(find_prefix_breaks(jinja::Template::parse(source, "t"), conversation, {}).empty());
  std::string trims = source;
  trims.replace(trims.find("{{ m.content }}"), 15, "{{ m.content|trim }}");
  const auto breaks = find_prefix_breaks(jinja::Template::parse(trims, "t"), conversation, {});
  ASSERT_EQ(breaks.size(), 1u);
  const std::string prompt = "<bos><|turn>user\na<turn|>\n<|turn>model\n";
  EXPECT_EQ(breaks[0].turn, 1u);
  EXPECT_EQ(breaks[0].at, prompt.size());
  EXPECT_EQ(breaks[0].lost, std::string(" b<turn|>").size());
  EXPECT_EQ(breaks[0].expected, " b<turn|>");
  EXPECT_EQ(breaks[0].found.substr(0, 8), "b<turn|>");
}

TEST(TemplateCheck, a_template_that_acts_on_what_users_write_fails) {
  const std::string source =
      std::string(kPlain) + "{% if '<|think|>' in messages[0].content %}{{ '<|think|>' }}{% endif %}";
  EXPECT_TRUE(says(results_of(source), Verdict::kFail, "a user's text that spells <|think|>"));
}

TEST(TemplateCheck, a_template_that_cuts_texts_is_told_where) {
  std::string source(kPlain);
  source.replace(source.find("{{ m.content }}"), 15, "{{ m.content.split('<channel|>')[-1] }}");
  EXPECT_TRUE(
      says(results_of(source), Verdict::kNote, "a user's text that spells <channel|> does not reach"));
}

TEST(TemplateCheck, the_tiny_models_template_passes_what_it_must) {
  const std::string path = SLIP_TEST_DATA "/../models/tiny/chat_template.jinja";
  const auto results = check_template(jinja::Template::parse(read_text_file(path), path), {});
  EXPECT_FALSE(std::any_of(results.begin(), results.end(),
                           [](const CheckResult& result) { return result.verdict == Verdict::kFail; }));
  EXPECT_TRUE(says(results, Verdict::kPass, "a call reads back"));
  EXPECT_TRUE(says(results, Verdict::kPass, "enable_thinking asks for a thought"));
  EXPECT_TRUE(says(results, Verdict::kPass, "ends with an empty thought"));
}

}  // namespace
}  // namespace slip::text
