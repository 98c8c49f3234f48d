// What a prefix cache may count on: inside a chain of calls the prompt of a round begins with the tokens of the
// round before and of the reply to it. Over made-up conversations and the golden ones, with and without thoughts,
// for both kinds of template and for the native renderer.
#include "text/prefix_check.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/mapped_file.h"
#include "text/chat.h"
#include "text/golden_tokenizer.h"

namespace slip::text {
namespace {

using nlohmann::json;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, from.size(), to);
}

const std::string& tiny_source() {
  static const std::string source = read_text_file(SLIP_TEST_DATA "/../models/tiny/chat_template.jinja");
  return source;
}

PromptMaker by_template(std::string_view source, bool thinking) {
  auto own = std::make_shared<jinja::Template>(jinja::Template::parse(source, "t.jinja"));
  return
      [own, thinking](const Conversation& part) { return render_chat(*own, part, {.thinking = thinking}); };
}

PromptMaker natively(bool empty_thought, bool thinking) {
  return [=](const Conversation& part) {
    Rendered prompt;
    for (const PromptPart& piece : render_chat(
             part, {.empty_thought_block = empty_thought, .thinking = thinking, .skip_stray_answers = true}))
      prompt.append(piece.text, piece.is_control ? Origin::kTemplate : Origin::kForeign);
    return prompt;
  };
}

struct Maker {
  std::string name;
  bool writes_empty_thought;
  PromptMaker prompt_of;
};

std::vector<Maker> makers(bool thinking) {
  const std::string small = replaced(tiny_source(), R"(set empty_thought = '<|channel>thought\n<channel|>')",
                                     "set empty_thought = ''");
  return {{"the template of large models", true, by_template(tiny_source(), thinking)},
          {"the template of small models", false, by_template(small, thinking)},
          {"natively, large", true, natively(true, thinking)},
          {"natively, small", false, natively(false, thinking)}};
}

/// Conversations of users, chains of calls and answers, the same for the same seed.
class Inventor {
 public:
  explicit Inventor(unsigned seed) : random_(seed) {}

  Conversation conversation() {
    Conversation made{{}, {{.name = "look", .parameters = {{"type", "object"}}}, {.name = "book-it.v2"}}};
    if (pick(2) == 0) made.turns.push_back({.role = Role::kSystem, .text = words()});
    for (int question = pick(3); question >= 0; --question) {
      made.turns.push_back({.role = Role::kUser, .text = words()});
      for (int round = pick(4); round > 0; --round) chain_link(made.turns);
      made.turns.push_back({.role = Role::kAssistant, .text = words()});
    }
    made.turns.push_back({.role = Role::kUser, .text = words()});
    return made;
  }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  std::string words() {
    static const char* const kWords[] = {"Oslo",        "naïve",     "2.50",  "<|turn>", "<|\"|>",
                                         "{a:b}",       "日本語",    "🦊",  "x,\ny",   "\"so\"",
                                         "<channel|>x", "tool_call", "\tTab", "E = mc²"};
    std::string text = "w";
    for (int count = 1 + pick(5); count > 0; --count) text += std::string(" ") + kWords[pick(14)];
    return text + ".";
  }

  json value(int depth) {
    switch (pick(depth > 2 ? 5 : 7)) {
      case 0: return words();
      case 1: return pick(2000) - 1000;
      case 2: return pick(1000) / 8.0;
      case 3: return pick(2) == 0;
      case 4: return pick(2) == 0 ? json("") : json();
      case 5: return json::array({value(depth + 1), value(depth + 1)});
      default: return arguments(depth + 1);
    }
  }

  json arguments(int depth) {
    static const char* const kKeys[] = {"city", "City", "b", "A", "größe", "x-y", "10", "nested.key"};
    json made = json::object();
    for (int count = pick(4); count > 0; --count) made[kKeys[pick(8)]] = value(depth);
    return made;
  }

  void chain_link(std::vector<Turn>& turns) {
    Turn caller{.role = Role::kAssistant, .reasoning = pick(3) > 0 ? words() : "I look it up."};
    const int calls = 1 + pick(3);
    for (int i = 0; i < calls; ++i)
      caller.calls.push_back({std::to_string(i), pick(2) == 0 ? "look" : "book-it.v2", arguments(0)});
    turns.push_back(caller);
    for (int i = 0; i < calls; ++i) {
      Turn answer{.role = Role::kTool, .call_id = std::to_string(i)};
      if (pick(2) == 0) {
        answer.text = words();
      } else {
        answer.result = arguments(0);
      }
      turns.push_back(answer);
    }
  }

  std::mt19937 random_;
};

/// Whether the turn is the first call after a question.
bool opens_chain(const Conversation& conversation, size_t turn) {
  return conversation.turns[turn - 1].role == Role::kUser;
}

void expect_stable_chains(Conversation conversation, bool thinking) {
  // A model that does not think has no thoughts to send back.
  if (!thinking) {
    for (Turn& turn : conversation.turns) {
      turn.reasoning.clear();
      turn.source.clear();
    }
  }
  for (const Maker& maker : makers(thinking)) {
    for (const PrefixBreak& found :
         find_prefix_breaks(maker.prompt_of, conversation, thinking, &golden_tokenizer())) {
      if (!found.in_chain) continue;
      // What the generation prompt closed before the first call is no part of the history.
      EXPECT_TRUE(maker.writes_empty_thought && !thinking && opens_chain(conversation, found.turn))
          << maker.name << ": " << describe(found);
    }
  }
}

size_t links(const Conversation& conversation) {
  return static_cast<size_t>(std::count_if(conversation.turns.begin(), conversation.turns.end(),
                                           [](const Turn& turn) { return !turn.calls.empty(); }));
}

TEST(PrefixCheck,
     inside_a_chain_of_calls_each_prompt_begins_with_the_tokens_of_the_one_before_and_its_reply) {
  size_t chained = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Conversation conversation = Inventor(seed).conversation();
    chained += links(conversation);
    for (const bool thinking : {false, true}) expect_stable_chains(conversation, thinking);
  }
  EXPECT_GT(chained, 100u);
}

TEST(PrefixCheck, so_it_is_in_the_golden_conversations) {
  size_t chained = 0;
  for (const auto& entry : json::parse(read_text_file(SLIP_TEST_DATA "/golden/chat/cases.json"))) {
    const Conversation conversation{read_messages(entry.at("messages")), read_tools(entry.at("tools"))};
    bool usual = true;
    for (const Turn& turn : conversation.turns) {
      // Templates write words behind the answers of the calls that followed them, and refuse call syntax.
      usual &= turn.calls.empty() || (turn.text.empty() && turn.calls[0].arguments.is_object());
    }
    if (!usual) continue;
    chained += links(conversation);
    for (const bool thinking : {false, true}) expect_stable_chains(conversation, thinking);
  }
  EXPECT_GT(chained, 6u);
}

TEST(PrefixCheck, a_template_that_writes_arguments_in_another_order_is_caught) {
  const std::string source = replaced(tiny_source(), "for key, value in fields | dictsort",
                                      "for key, value in fields | dictsort(reverse=true)");
  Conversation conversation{{{.role = Role::kUser, .text = "x"},
                             {.role = Role::kAssistant, .calls = {{"1", "f", {{"a", 1}, {"b", 2}}}}},
                             {.role = Role::kTool, .text = "y", .call_id = "1"}}};
  const auto breaks = find_prefix_breaks(by_template(source, true), conversation, true, &golden_tokenizer());
  ASSERT_EQ(breaks.size(), 1u);
  EXPECT_TRUE(breaks[0].in_chain);
  EXPECT_TRUE(breaks[0].expected.starts_with("a:1")) << breaks[0].expected;
  EXPECT_TRUE(breaks[0].found.starts_with("b:2")) << breaks[0].found;
}

// So do Google's; docs/templates.md says what it costs.
TEST(PrefixCheck, words_beside_a_call_are_computed_again_with_the_call) {
  const Conversation conversation{
      {{.role = Role::kUser, .text = "x"},
       {.role = Role::kAssistant, .text = "Wait.", .calls = {{"1", "f", {{"a", 1}}}}},
       {.role = Role::kTool, .text = "y", .call_id = "1"},
       {.role = Role::kAssistant, .calls = {{"2", "f", {{"a", 2}}}}},
       {.role = Role::kTool, .text = "z", .call_id = "2"}}};
  const auto breaks =
      find_prefix_breaks(by_template(tiny_source(), true), conversation, true, &golden_tokenizer());
  ASSERT_FALSE(breaks.empty());
  EXPECT_EQ(breaks[0].turn, 1u);
  EXPECT_TRUE(breaks[0].expected.starts_with("Wait.<|tool_call>")) << breaks[0].expected;
}

TEST(PrefixCheck, a_null_is_spelled_as_the_template_spells_it) {
  const std::string source = replaced(tiny_source(), "{%- if value is string -%}",
                                      "{%- if value is none -%}null{%- elif value is string -%}");
  const Conversation conversation{{{.role = Role::kUser, .text = "x"},
                                   {.role = Role::kAssistant, .calls = {{"1", "f", {{"a", nullptr}}}}},
                                   {.role = Role::kTool, .text = "y", .call_id = "1"}}};
  for (const std::string& spelled : {source, tiny_source()}) {
    EXPECT_TRUE(
        find_prefix_breaks(by_template(spelled, true), conversation, true, &golden_tokenizer()).empty());
  }
}

TEST(PrefixCheck, tokens_may_differ_where_bytes_do_not) {
  // The prompt ends inside a word that the reply completes: one token when it is read again, two as it was written.
  const std::string word = "hello";
  const auto prompt_of = [&](const Conversation& part) {
    Rendered prompt;
    prompt.append("hel", Origin::kForeign);
    if (part.turns.size() > 1) {
      prompt.append("lo", Origin::kForeign);
      prompt.append(mark::kTurnEnd, Origin::kTemplate);
    }
    return prompt;
  };
  const Conversation conversation{{{.role = Role::kUser, .text = "x"},
                                   {.role = Role::kAssistant, .text = "lo"},
                                   {.role = Role::kUser, .text = "y"}}};
  EXPECT_TRUE(find_prefix_breaks(prompt_of, conversation, false).empty()) << "in bytes nothing differs";
  const Tokenizer& tokenizer = golden_tokenizer();
  std::vector<int> apart = tokenizer.encode("hel");
  const auto end = tokenizer.encode("lo");
  apart.insert(apart.end(), end.begin(), end.end());
  ASSERT_NE(apart, tokenizer.encode(word)) << "the word must be cut otherwise as a whole";
  const auto breaks = find_prefix_breaks(prompt_of, conversation, false, &tokenizer);
  ASSERT_EQ(breaks.size(), 1u);
  EXPECT_GT(breaks[0].lost_tokens, 0u);
  EXPECT_LT(breaks[0].at, word.size());
}

TEST(PrefixCheck, a_thought_that_the_prompt_has_opened_is_not_written_twice) {
  const std::string source =
      "{% for m in messages %}{{ '<|turn>' + m.role + '\\n' }}{% if m.reasoning %}{{ '<|channel>thought\\n' "
      "+ "
      "m.reasoning + '\\n<channel|>' }}{% endif %}{{ m.content + '<turn|>\\n' }}{% endfor %}{% if "
      "add_generation_prompt %}{{ '<|turn>assistant\\n<|channel>thought\\n' }}{% endif %}";
  const Conversation conversation{{{.role = Role::kUser, .text = "x"},
                                   {.role = Role::kAssistant, .text = "y", .reasoning = "Hm."},
                                   {.role = Role::kUser, .text = "z"}}};
  EXPECT_TRUE(find_prefix_breaks(by_template(source, true), conversation, true, &golden_tokenizer()).empty());
}

TEST(PrefixCheck, a_reply_is_written_as_the_model_writes_it) {
  Turn turn{.role = Role::kAssistant, .reasoning = "Hm."};
  turn.calls.push_back({"1", "f", {{"b", 1}, {"A", "x"}}});
  EXPECT_EQ(reply_of(turn, true).bytes,
            "<|channel>thought\nHm.\n<channel|><|tool_call>call:f{A:<|\"|>x<|\"|>,b:1}"
            "<tool_call|><|tool_response>");
  EXPECT_EQ(reply_of({.role = Role::kAssistant, .text = "Hi"}, true).bytes, "Hi<turn|>");
}

}  // namespace
}  // namespace slip::text
