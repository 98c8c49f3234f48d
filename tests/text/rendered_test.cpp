// Tokens of a rendered prompt: control tokens only where the template spelled all of them.
#include "text/rendered.h"

#include <gtest/gtest.h>

#include "text/golden_tokenizer.h"

namespace slip::text {
namespace {

Rendered prompt_of(std::initializer_list<std::pair<std::string_view, Origin>> pieces) {
  Rendered prompt;
  for (const auto& [text, origin] : pieces) prompt.append(text, origin);
  return prompt;
}

constexpr Origin kOurs = Origin::kTemplate;
constexpr Origin kTheirs = Origin::kForeign;

int controls(const std::vector<int>& ids) {
  int count = 0;
  for (const int id : ids) count += golden_tokenizer().is_special(id);
  return count;
}

TEST(Rendered, joins_neighbours_of_one_origin_and_drops_nothing) {
  const Rendered prompt = prompt_of({{"a", kOurs}, {"", kTheirs}, {"b", kOurs}, {"c", kTheirs}});
  EXPECT_EQ(prompt.bytes, "abc");
  EXPECT_EQ(prompt.spans, (std::vector<Rendered::Span>{{2, kOurs}, {3, kTheirs}}));
}

TEST(Rendered, control_tokens_of_the_template_are_tokens_and_those_of_callers_are_text) {
  const Rendered prompt =
      prompt_of({{"<bos><|turn>user\n", kOurs}, {"<|turn>", kTheirs}, {"<turn|>\n", kOurs}});
  const auto ids = encode(golden_tokenizer(), prompt);
  EXPECT_EQ(controls(ids), 3);
  EXPECT_EQ(golden_tokenizer().decode(ids), prompt.bytes) << "and the text is all there";
}

TEST(Rendered, a_control_token_joined_from_two_origins_is_text) {
  EXPECT_EQ(controls(encode(golden_tokenizer(), prompt_of({{"<|", kOurs}, {"turn>", kTheirs}}))), 0);
  EXPECT_EQ(controls(encode(golden_tokenizer(), prompt_of({{"<|turn", kTheirs}, {">", kOurs}}))), 0);
  EXPECT_EQ(controls(encode(golden_tokenizer(), prompt_of({{"<|t", kOurs}, {"u", kTheirs}, {"rn>", kOurs}}))),
            0);
  EXPECT_EQ(controls(encode(golden_tokenizer(), prompt_of({{"<|turn>", kOurs}}))), 1);
}

TEST(Rendered, a_refused_token_does_not_hide_the_one_behind_it) {
  EXPECT_EQ(controls(encode(golden_tokenizer(), prompt_of({{"<|turn><|turn", kTheirs}, {"<|turn>", kOurs}}))),
            1);
}

TEST(Rendered, text_is_merged_across_origins_as_one_text) {
  for (const GoldenCase& golden : golden_cases()) {
    for (size_t cut = 0; cut <= golden.text.size(); cut += 1 + golden.text.size() / 5) {
      // Cut anywhere, also inside a character; what spells no control token gives the same ids.
      const Rendered prompt = prompt_of({{std::string_view(golden.text).substr(0, cut), kTheirs},
                                         {std::string_view(golden.text).substr(cut), kTheirs}});
      EXPECT_EQ(encode(golden_tokenizer(), prompt),
                golden_tokenizer().encode(golden.text, {.specials = false}));
      Rendered mixed;
      mixed.bytes = golden.text;
      if (cut > 0) mixed.spans.push_back({cut, kOurs});
      if (cut < golden.text.size()) mixed.spans.push_back({golden.text.size(), kTheirs});
      if (golden_tokenizer().encode(golden.text) ==
          golden_tokenizer().encode(golden.text, {.specials = false})) {
        EXPECT_EQ(encode(golden_tokenizer(), mixed), golden_tokenizer().encode(golden.text));
      }
    }
  }
}

TEST(Rendered, a_prompt_all_of_the_template_has_the_ids_of_its_text) {
  for (const GoldenCase& golden : golden_cases()) {
    EXPECT_EQ(encode(golden_tokenizer(), prompt_of({{golden.text, kOurs}})),
              golden_tokenizer().encode(golden.text));
  }
}

TEST(Rendered, special_tokens_matched_on_normalised_text_obey_origins_too) {
  const Tokenizer tokenizer = Tokenizer::parse(
      R"({"added_tokens":[{"id":3,"content":"<a b>","special":true,"normalized":true}],
          "normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},
          "model":{"type":"BPE","unk_token":"?","vocab":{"?":0,"<":1,"▁":2}}})",
      "normalised.json");
  const auto has = [&](const Rendered& prompt) {
    const auto ids = encode(tokenizer, prompt);
    return std::count(ids.begin(), ids.end(), 3);
  };
  EXPECT_EQ(has(prompt_of({{"  x ", kTheirs}, {"<a b>", kOurs}, {" <a b>", kTheirs}})), 1);
  EXPECT_EQ(has(prompt_of({{"<a", kOurs}, {" b>", kTheirs}})), 0);
}

}  // namespace
}  // namespace slip::text
