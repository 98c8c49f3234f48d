// Text completions: raw prompts, echo, scores, streamed and whole.
#include "server/api_fixture.h"

namespace slip::server::api {
namespace {

constexpr const char* kPath = "/v1/completions";

/// A stream put together: text, scores and finish reason of every choice.
json assembled_texts(const std::vector<json>& events) {
  std::map<int, json> choices;
  for (const json& event : events) {
    if (!event.is_object()) continue;
    for (const json& choice : event.at("choices")) {
      json& whole = choices[choice.at("index")];
      if (whole.is_null()) whole = {{"index", choice["index"]}, {"text", ""}, {"logprobs", nullptr}};
      whole["text"] = whole["text"].get<std::string>() + choice.at("text").get<std::string>();
      whole["finish_reason"] = choice.at("finish_reason");
      if (choice.at("logprobs").is_null()) continue;
      for (const auto& [key, list] : choice["logprobs"].items()) {
        for (const json& one : list) whole["logprobs"][key].push_back(one);
      }
    }
  }
  json all = json::array();
  for (auto& [index, choice] : choices) all.push_back(std::move(choice));
  return all;
}

/// Asks both ways; they must say the same.
json choices(Server& server, json body) {
  const auto whole = server.ask(kPath, body);
  EXPECT_EQ(whole->status(), 200) << whole->text();
  body["stream"] = true;
  const auto stream = server.ask(kPath, body);
  EXPECT_EQ(assembled_texts(stream->events()), whole->body()["choices"]) << body;
  return whole->body()["choices"];
}

TEST(Completion, goes_on_from_text_and_from_ids) {
  Server server;
  server.says("def");
  EXPECT_EQ(choices(server, {{"prompt", "abc"}})[0]["text"], "def");
  const int bos = *scripted_model().tokenizer().id_of("<bos>");
  EXPECT_EQ(server.replies.last_prompt.size(), 4u);
  EXPECT_EQ(server.replies.last_prompt[0], bos);
  choices(server, {{"prompt", "abc"}, {"add_special_tokens", false}});
  EXPECT_EQ(server.replies.last_prompt.size(), 3u);
  choices(server, {{"prompt", {5, 6, 7}}});
  EXPECT_EQ(server.replies.last_prompt, (std::vector<int>{5, 6, 7}));
  choices(server, {{"prompt", "<|turn>"}, {"add_special_tokens", false}});
  EXPECT_EQ(server.replies.last_prompt.size(), 1u) << "control tokens are parsed";
  choices(server, {{"prompt", "<|turn>"}, {"add_special_tokens", false}, {"parse_special", false}});
  EXPECT_EQ(server.replies.last_prompt.size(), 7u);
}

TEST(Completion, several_prompts_and_choices_come_in_their_order) {
  Server server;
  server.says("x");
  const json got = choices(server, {{"prompt", {"a", "bb"}}, {"n", 2}, {"echo", true}});
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[0]["text"], "ax");
  EXPECT_EQ(got[1]["text"], "ax");
  EXPECT_EQ(got[2]["text"], "bbx");
  EXPECT_EQ(got[3]["index"], 3);
  const auto usage = server.ask(kPath, {{"prompt", {"a", "bb"}}, {"n", 2}})->body()["usage"];
  EXPECT_EQ(usage["prompt_tokens"], 5) << "a prompt that two choices share counts once";
  EXPECT_EQ(usage["completion_tokens"], 4);
}

TEST(Completion, echo_with_logprobs_scores_the_prompt_too_the_first_token_without) {
  Server server;
  server.says("cd");
  const json got = choices(server, {{"prompt", "ab"}, {"echo", true}, {"logprobs", 1}});
  EXPECT_EQ(got[0]["text"], "abcd");
  const json& scores = got[0]["logprobs"];
  EXPECT_EQ(scores["tokens"], json::parse(R"(["<bos>", "a", "b", "c", "d"])"));
  EXPECT_TRUE(scores["token_logprobs"][0].is_null());
  EXPECT_TRUE(scores["top_logprobs"][0].is_null());
  EXPECT_FLOAT_EQ(scores["token_logprobs"][1].get<float>(), -0.5f);
  EXPECT_FLOAT_EQ(scores["token_logprobs"][3].get<float>(), -0.25f);
  EXPECT_EQ(scores["text_offset"], json::parse("[0, 0, 1, 2, 3]")) << "<bos> is no part of the text";
  EXPECT_EQ(scores["top_logprobs"][3].size(), 1u);
}

TEST(Completion, max_tokens_0_with_echo_gives_the_prompt_alone) {
  Server server;
  server.says("cd");
  const json body{{"prompt", "ab"}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}};
  const json got = choices(server, body);
  EXPECT_EQ(got[0]["text"], "ab");
  EXPECT_EQ(got[0]["logprobs"]["tokens"].size(), 3u);
  EXPECT_EQ(server.ask(kPath, body)->body()["usage"]["completion_tokens"], 0);
}

TEST(Completion, ends_are_told) {
  Server server;
  server.says("abcdef");
  EXPECT_EQ(choices(server, {{"prompt", "x"}})[0]["finish_reason"], "stop");
  EXPECT_EQ(choices(server, {{"prompt", "x"}, {"max_tokens", 2}})[0]["finish_reason"], "length");
  EXPECT_EQ(choices(server, {{"prompt", "x"}, {"stop", "cd"}})[0]["text"], "ab");
}

TEST(Completion, control_tokens_of_the_reply_are_hidden_unless_they_are_asked_for) {
  Server server;
  server.says("a<|channel>b");
  EXPECT_EQ(choices(server, {{"prompt", "x"}})[0]["text"], "ab");
  EXPECT_EQ(choices(server, {{"prompt", "x"}, {"skip_special_tokens", false}})[0]["text"], "a<|channel>b");
}

TEST(Completion, users_10_life_signs_are_chunks_without_text) {
  Server server;
  server.says("ab", {.tokens = {}, .pause_at = 0});
  const auto stream = server.post(kPath, {{"prompt", "x"}, {"stream", true}});
  server.timers.advance(std::chrono::seconds(10));
  stream->wait_for("data: ");
  server.replies.go_on();
  stream->wait();
  EXPECT_EQ(assembled_texts(stream->events())[0]["text"], "ab");
}

}  // namespace
}  // namespace slip::server::api
