// The promise over the API, with a real model: the same text and ids streamed or not, drafted or not, alone or among
// others.
#include "server/loaded_server.h"

namespace slip::server::api {
namespace {

json request(int i) {
  json body =
      chat({{"max_tokens", 24}, {"temperature", 1}, {"seed", i}, {"logprobs", true}, {"ignore_eos", true}});
  body["messages"][0]["content"] = std::string(static_cast<size_t>(i + 1), 'a' + static_cast<char>(i));
  return body;
}

/// What was written: messages and scores, without what depends on the moment.
json written(const std::shared_ptr<FakeExchange>& got, bool stream) {
  got->wait();
  EXPECT_EQ(got->status(), 200) << got->text();
  json all = (stream ? assembled(got->events()) : reshaped(got->body()))["choices"];
  for (json& choice : all) {
    for (json& call : choice["calls"]) call.erase("id");
  }
  return all;
}

TEST(ApiIdentity, a_reply_is_the_same_streamed_drafted_alone_or_among_16) {
  Loaded loaded;
  constexpr int kRequests = 16;
  std::vector<json> alone;
  for (int i = 0; i < kRequests; ++i)
    alone.push_back(written(loaded.post("/v1/chat/completions", request(i)), false));
  for (const bool stream : {false, true}) {
    for (const bool draft : {true, false}) {
      std::vector<std::shared_ptr<FakeExchange>> together;
      for (int i = 0; i < kRequests; ++i) {
        json body = request(i);
        body["stream"] = stream;
        body["draft"] = draft;
        together.push_back(loaded.post("/v1/chat/completions", body));
      }
      for (int i = 0; i < kRequests; ++i) {
        const auto index = static_cast<size_t>(i);
        EXPECT_EQ(written(together[index], stream), alone[index])
            << "request " << i << (stream ? ", streamed" : "") << (draft ? "" : ", not drafted");
      }
    }
  }
}

TEST(ApiIdentity, a_chat_reply_is_told_apart) {
  Loaded loaded;
  const json got = written(loaded.post("/v1/chat/completions", chat({{"temperature", 0}})), false);
  EXPECT_EQ(got[0]["reasoning_content"], "deep water");
  EXPECT_EQ(got[0]["content"], "The answer");
  EXPECT_EQ(got[0]["finish_reason"], "stop");
}

TEST(ApiIdentity, users_13_a_short_request_beside_a_long_one_ends_first) {
  Loaded loaded;
  json long_one = chat({{"max_tokens", 2000}, {"ignore_eos", true}, {"stream", true}});
  const auto slow = loaded.post("/v1/chat/completions", long_one);
  const auto quick = loaded.post("/v1/chat/completions", chat({{"max_tokens", 2}}));
  quick->wait();
  EXPECT_FALSE(slow->done());
  slow->leave();
  EXPECT_TRUE(loaded.service.drained(std::chrono::seconds(60))) << "its memory comes back";
}

}  // namespace
}  // namespace slip::server::api
