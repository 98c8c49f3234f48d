// report_drafts and continue_token_ids: the record of every token, and replies that go on from ids.
#include "server/loaded_server.h"
#include "server/recorded_replies.h"

namespace slip::server::api {
namespace {

constexpr const char* kChat = "/v1/chat/completions";

/// The entries of a choice, streamed or not.
json drafts_of(const FakeExchange& got, bool stream) {
  json list = json::array();
  if (!stream) return got.body()["choices"][0]["drafts"];
  for (const json& event : got.events()) {
    if (!event.is_object() || event["choices"].empty() || !event["choices"][0].contains("drafts")) continue;
    for (const json& entry : event["choices"][0]["drafts"]) list.push_back(entry);
  }
  return list;
}

size_t bytes_of(const json& drafts, const char* place) {
  size_t sum = 0;
  for (const json& entry : drafts) sum += entry["place"] == place ? entry["bytes"].get<size_t>() : 0;
  return sum;
}

TEST(Drafts, page_1_bytes_add_up_to_the_text_in_every_recorded_reply_streamed_and_not) {
  Server server;
  for (const Recorded& reply : recorded()) {
    SCOPED_TRACE(reply.name);
    server.says(reply.reply);
    json body = chat({{"tools", weather_tools()}, {"report_drafts", true}});
    const json whole = drafts_of(*server.ask(kChat, body), false);
    EXPECT_EQ(bytes_of(whole, "content"), std::string(reply.content).size());
    EXPECT_EQ(bytes_of(whole, "reasoning"), std::string(reply.reasoning).size());
    EXPECT_EQ(bytes_of(whole, "call"), 0u);
    EXPECT_EQ(bytes_of(whole, "none"), 0u);
    size_t tokens = 0;
    for (const json& entry : whole) tokens += entry["id"].is_null() ? 0 : 1;
    EXPECT_EQ(tokens, scripted_model().tokenizer().encode(reply.reply).size() + 1);
    body["stream"] = true;
    EXPECT_EQ(drafts_of(*server.ask(kChat, body), true), whole);
  }
  EXPECT_FALSE(server.ask(kChat, chat())->body()["choices"][0].contains("drafts")) << "only who asks gets it";
}

TEST(Drafts, page_1_a_call_that_is_dropped_and_text_behind_the_first_call_have_no_bytes) {
  Server server;
  for (const bool stream : {false, true}) {
    server.says("ok<|tool_call>call:ping{}<tool_call|>");
    json body =
        chat({{"tools", weather_tools()}, {"report_drafts", true}, {"max_tokens", 6}, {"stream", stream}});
    auto drafts = drafts_of(*server.ask(kChat, body), stream);
    EXPECT_EQ(bytes_of(drafts, "content"), 2u);
    EXPECT_EQ(drafts.size(), 6u);
    server.says("a<|tool_call>call:ping{}<tool_call|>and more");
    body["max_tokens"] = 100;
    body["parallel_tool_calls"] = false;
    drafts = drafts_of(*server.ask(kChat, body), stream);
    EXPECT_EQ(bytes_of(drafts, "content"), 1u);
  }
}

/// Ids that a model which counts goes on from: what it writes next stood there before, and once something else did.
std::vector<int> counted() {
  std::vector<int> ids;
  for (int id = 340; id < 400; ++id) ids.push_back(id);
  for (const int id : {340, 341, 342, 343, 344, 460, 461, 462, 340, 341, 342}) ids.push_back(id);
  return ids;
}

TEST(Drafts, page_1_sources_and_rejected_guesses_add_up_to_the_timings) {
  Loaded loaded;
  int accepted = 0, wrong = 0;
  for (const char* path : {kChat, "/v1/completions"}) {
    for (const double temperature : {0.0, 1.0}) {
      json body = chat({{"max_tokens", 40},
                        {"seed", 3},
                        {"temperature", temperature},
                        {"report_drafts", true},
                        {"ignore_eos", true},
                        {"prompt", "x"},
                        {"continue_token_ids", counted()}});
      const auto got = loaded.post(path, body);
      got->wait();
      ASSERT_EQ(got->status(), 200) << got->text();
      const json answer = got->body();
      const json& choice = answer["choices"][0];
      std::map<std::string, int> by_source;
      int rejected = 0;
      for (const json& entry : choice["drafts"]) {
        ++by_source[entry["source"]];
        rejected += static_cast<int>(entry.value("rejected", json::array()).size());
      }
      const json& timings = answer["timings"];
      for (const auto& [name, counts] : timings["drafters"].items())
        EXPECT_EQ(by_source[name], counts["draft_n_accepted"]) << name;
      EXPECT_EQ(rejected, timings["draft_n"].get<int>() - timings["draft_n_accepted"].get<int>());
      accepted += timings["draft_n_accepted"].get<int>();
      wrong += rejected;
      const json& text = choice.contains("message") ? choice["message"]["content"] : choice["text"];
      EXPECT_EQ(bytes_of(choice["drafts"], "content"), text.get<std::string>().size());
    }
  }
  EXPECT_GT(accepted, 0) << "nothing was guessed right, and nothing tried";
  EXPECT_GT(wrong, 0) << "nothing was guessed wrong, and nothing tried";
}

TEST(Continue, a_reply_goes_on_from_ids_in_text_thoughts_and_calls) {
  Server server;
  const text::Tokenizer& tokenizer = scripted_model().tokenizer();
  for (const Recorded& reply : recorded()) {
    SCOPED_TRACE(reply.name);
    if (std::string(reply.name) == "only a thought")
      continue;  // its answer is a repetition, which needs the whole
    const std::vector<int> ids = tokenizer.encode(reply.reply);
    for (size_t cut = 1; cut <= ids.size(); ++cut) {
      SCOPED_TRACE("from token " + std::to_string(cut));
      const std::vector<int> begun(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(cut));
      ScriptedReplies::Script rest;
      rest.tokens.assign(ids.begin() + static_cast<ptrdiff_t>(cut), ids.end());
      rest.tokens.push_back(*tokenizer.id_of("<turn|>"));
      server.replies.set(rest);
      const auto got = server.ask(kChat, chat({{"tools", weather_tools()}, {"continue_token_ids", begun}}));
      ASSERT_EQ(got->status(), 200) << got->text();
      ASSERT_TRUE(std::equal(begun.rbegin(), begun.rend(), server.replies.last_prompt.rbegin()));
      EXPECT_EQ(server.replies.last_min_tokens, 0) << "it may be complete already";
      const json message = reshaped(got->body())["choices"][0];
      EXPECT_TRUE(std::string(reply.content).ends_with(message["content"].get<std::string>())) << message;
      EXPECT_TRUE(std::string(reply.reasoning).ends_with(message["reasoning"].get<std::string>())) << message;
      ASSERT_LE(message["calls"].size(), reply.calls.size());
      for (size_t i = 0; i < message["calls"].size(); ++i) {
        const auto& [name, arguments] = reply.calls[reply.calls.size() - message["calls"].size() + i];
        EXPECT_EQ(message["calls"][i]["name"], name);
        EXPECT_EQ(message["calls"][i]["arguments"], arguments) << "a call that was begun comes whole";
      }
    }
  }
}

TEST(Continue, a_cut_call_that_was_begun_before_is_dropped) {
  Server server;
  const text::Tokenizer& tokenizer = scripted_model().tokenizer();
  server.says("ng{}<tool_call|>");
  const json body = chat({{"tools", weather_tools()},
                          {"max_tokens", 1},
                          {"continue_token_ids", tokenizer.encode("<|tool_call>call:pi")}});
  EXPECT_EQ(reshaped(server.ask(kChat, body)->body())["choices"][0]["content"], "");
}

TEST(Continue, the_rest_is_the_same_bytes_as_without_the_cut) {
  Loaded loaded;
  json body = chat(
      {{"max_tokens", 24}, {"seed", 5}, {"temperature", 1}, {"report_drafts", true}, {"ignore_eos", true}});
  const auto whole = loaded.post(kChat, body);
  whole->wait();
  const json choice = whole->body()["choices"][0];
  std::vector<int> ids;
  for (const json& entry : choice["drafts"]) ids.push_back(entry["id"]);
  ASSERT_EQ(ids.size(), 24u);
  for (const size_t cut : {size_t{1}, size_t{5}, size_t{13}, size_t{23}}) {
    json rest = body;
    rest["continue_token_ids"] = std::vector<int>(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(cut));
    rest["max_tokens"] = 24 - cut;
    const auto got = loaded.post(kChat, rest);
    got->wait();
    std::vector<int> more;
    const json answer = got->body();
    for (const json& entry : answer["choices"][0]["drafts"]) more.push_back(entry["id"]);
    EXPECT_EQ(more, std::vector<int>(ids.begin() + static_cast<ptrdiff_t>(cut), ids.end())) << cut;
  }
}

TEST(Continue, completions_go_on_too_and_what_makes_no_sense_is_refused) {
  Server server;
  server.says("def");
  const auto got = server.ask("/v1/completions", {{"prompt", "abc"}, {"continue_token_ids", {5, 6}}});
  EXPECT_EQ(got->body()["choices"][0]["text"], "def");
  ASSERT_EQ(server.replies.last_prompt.size(), 6u);
  EXPECT_EQ(server.replies.last_prompt.back(), 6);
  for (const json& more : std::vector<json>{{{"continue_token_ids", 5}},
                                            {{"continue_token_ids", {512}}},
                                            {{"continue_token_ids", {1}}, {"add_generation_prompt", false}},
                                            {{"report_drafts", 1}}})
    EXPECT_EQ(server.ask(kChat, chat(more))->status(), 400) << more;
}

}  // namespace
}  // namespace slip::server::api
