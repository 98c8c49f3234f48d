// What a cache held of a prompt, as each API tells it, with a real model.
#include "server/loaded_server.h"

namespace slip::server::api {
namespace {

json usage_of(Loaded& loaded, const char* path, const json& body) {
  const auto got = loaded.post(path, body);
  got->wait();
  EXPECT_EQ(got->status(), 200) << got->text();
  const json answer = got->body();
  return answer.contains("usage") ? answer["usage"] : answer;
}

TEST(Cached, users_26_every_api_tells_how_much_of_the_prompt_was_there_already) {
  Loaded loaded;
  const std::string words(400, 'b');
  const json messages = {{{"role", "user"}, {"content", words}}};
  const json chat{{"model", ""}, {"messages", messages}, {"max_tokens", 2}};
  const json first = usage_of(loaded, "/v1/chat/completions", chat);
  EXPECT_EQ(first["prompt_tokens_details"]["cached_tokens"], 0);
  const json again = usage_of(loaded, "/v1/chat/completions", chat);
  const int prompt = again["prompt_tokens"], cached = again["prompt_tokens_details"]["cached_tokens"];
  ASSERT_GT(cached, 0) << "nothing was kept of a prompt of " << prompt;

  const json messages_usage = usage_of(loaded, "/v1/messages", chat);
  EXPECT_EQ(messages_usage["cache_read_input_tokens"], cached) << "the same prompt, whoever asks";
  EXPECT_EQ(messages_usage["input_tokens"], prompt - cached);
  EXPECT_EQ(messages_usage["cache_creation_input_tokens"], 0);

  const json responses =
      usage_of(loaded, "/v1/responses", {{"model", ""}, {"input", words}, {"max_output_tokens", 2}});
  EXPECT_EQ(responses["input_tokens"], prompt);
  EXPECT_EQ(responses["input_tokens_details"]["cached_tokens"], cached);
}

}  // namespace
}  // namespace slip::server::api
