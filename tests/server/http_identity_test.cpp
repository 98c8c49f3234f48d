// The promise over HTTP: what comes out of the socket is what the library writes, whoever else asks and however it is
// asked for.
#include "server/api/openai_reply.h"
#include "server/whole_server.h"

namespace slip::server::api {
namespace {

constexpr int kRequests = 17;

json completion(int i) {
  return {{"prompt", std::string(static_cast<size_t>(i % 5 + 1), 'a' + static_cast<char>(i))},
          {"max_tokens", 20 + i},
          {"temperature", 0.3 * i},
          {"seed", i},
          {"logprobs", 3},
          {"ignore_eos", true},
          {"skip_special_tokens", false}};
}

/// Text, ids by their spelling, and log-probabilities.
json written(const http::Reply& reply, bool stream) {
  EXPECT_EQ(reply.status, 200) << reply.body.substr(0, 200);
  EXPECT_TRUE(reply.whole);
  json all{{"text", ""}, {"tokens", json::array()}, {"scores", json::array()}};
  const auto add = [&](const json& body) {
    for (const json& choice : body.value("choices", json::array())) {
      all["text"] = all["text"].get<std::string>() + choice["text"].get<std::string>();
      if (choice["logprobs"].is_null()) continue;
      for (const json& token : choice["logprobs"]["tokens"]) all["tokens"].push_back(token);
      for (const json& score : choice["logprobs"]["token_logprobs"]) all["scores"].push_back(score);
    }
  };
  if (!stream) {
    add(json::parse(reply.body, nullptr, false));
  } else {
    for (const json& event : events_of(reply.body))
      if (event.is_object()) add(event);
  }
  return all;
}

TEST(ApiIdentity, over_http_it_is_what_the_library_writes_alone_among_16_drafted_streamed_or_not) {
  const WholeServer server;
  const auto& tokenizer = server.model->tokenizer();
  std::vector<json> alone;
  for (int i = 0; i < kRequests; ++i) {
    const json body = completion(i);
    alone.push_back(written(server.ask("/v1/completions", body), false));
    session::Generation generation{
        .form = session::ReplyForm::kSpelled, .max_tokens = body["max_tokens"], .ignore_stop_ids = true};
    generation.sampling.temperature = body["temperature"].get<float>();
    generation.sampling.seed = static_cast<uint64_t>(i);
    const session::Reply reply = server.model->generate(
        server.model->request(server.model->raw(body["prompt"].get<std::string>()), generation));
    EXPECT_EQ(alone.back()["text"], reply.text) << i;
    json tokens = json::array();
    for (const int id : reply.tokens) tokens.push_back(token_text(tokenizer, id));
    EXPECT_EQ(alone.back()["tokens"], tokens) << i;
  }
  for (const bool stream : {false, true}) {
    for (const bool draft : {true, false}) {
      std::vector<http::Client> clients;
      for (int i = 0; i < kRequests; ++i) {
        json body = completion(i);
        body["stream"] = stream;
        body["draft"] = draft;
        clients.emplace_back(server.port()).send(WholeServer::request("/v1/completions", body));
      }
      for (int i = 0; i < kRequests; ++i) {
        const auto index = static_cast<size_t>(i);
        EXPECT_EQ(written(clients[index].read(), stream), alone[index])
            << "request " << i << (stream ? ", streamed" : "") << (draft ? "" : ", not drafted");
      }
    }
  }
}

TEST(ApiIdentity, users_22_of_1000_answers_that_ended_by_themselves_none_is_empty) {
  const WholeServer server;
  int ended = 0;
  std::vector<http::Client> clients;
  for (int i = 0; i < 16; ++i) clients.emplace_back(server.port());
  for (int i = 0; i < 1000; ++i) {
    http::Client& client = clients[static_cast<size_t>(i) % clients.size()];
    // Hot enough to leave what the model would say; thoughts and calls are begun and not ended.
    json body = chat({{"max_tokens", 30}, {"temperature", 1 + i % 5 * 0.5}, {"seed", i}});
    body["messages"][0]["content"] =
        std::string(static_cast<size_t>(i % 40 + 1), 'a' + static_cast<char>(i % 26));
    client.send(WholeServer::request("/v1/chat/completions", body));
    if (i % 16 != 15 && i != 999) continue;
    for (int k = i / 16 * 16; k <= i; ++k) {
      const http::Reply reply = clients[static_cast<size_t>(k) % clients.size()].read();
      ASSERT_EQ(reply.status, 200) << reply.body.substr(0, 200);
      const json choice = json::parse(reply.body)["choices"][0];
      if (choice["finish_reason"] != "stop") continue;
      ++ended;
      EXPECT_FALSE(choice["message"]["content"].is_null() || choice["message"]["content"] == "") << choice;
    }
  }
  EXPECT_GT(ended, 100);
}

TEST(ApiIdentity, users_11_the_prompt_of_a_client_that_left_is_not_read_again) {
  const WholeServer server({.step_rows = 32});
  std::string prompt(3000, 'a');
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<char>('a' + i * i % 23);
  const json body{{"prompt", prompt}, {"max_tokens", 4}, {"temperature", 0}, {"logprobs", 2}};
  const auto steps = [&] { return server.model->load_now().steps; };
  const uint64_t before = steps();
  {
    http::Client impatient(server.port());
    impatient.send(WholeServer::request("/v1/completions", body));
    ASSERT_TRUE(http::eventually([&] { return steps() > before + 40; })) << "1,280 tokens are read";
  }
  ASSERT_TRUE(http::eventually([&] { return server.service.active() == 0; }));
  const uint64_t read = (steps() - before - 1) * 32;
  const json retry = json::parse(server.ask("/v1/completions", body).body);
  const uint64_t cached = retry["usage"]["prompt_tokens_details"]["cached_tokens"];
  if (read < prompt.size()) {
    EXPECT_GE(cached + 2 * 256, read) << "all but the last page and what was on its way";
  }
  EXPECT_GE(cached, 768u);
  const WholeServer fresh;
  const json cold = json::parse(fresh.ask("/v1/completions", body).body);
  EXPECT_EQ(retry["choices"], cold["choices"]) << "a hit cannot be seen";
}

}  // namespace
}  // namespace slip::server::api
