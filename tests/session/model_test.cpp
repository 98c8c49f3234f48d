// A model from opening to replies, from any number of threads.
#include "session/model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "session/report.h"
#include "support/scripted_model.h"
#include "synth/synthetic.h"

namespace slip::session {
namespace {

using engine::FinishReason;

/// Follows token t by t + 1, mostly, so that a reply is known and drafters are right.
std::unique_ptr<Model> make_model(int sequences = 4, int context = 0) {
  synth::SynthOptions synth{.shape = "tiny-e2b", .bits = 8};
  synth.acceptance = 0.7;
  const test::ScriptedVocabulary vocabulary(test::thoughtful_script());
  auto model = std::make_unique<Model>(synth::synthesize(synth),
                                       text::Tokenizer::parse(vocabulary.tokenizer_json(), "scripted"));
  LoadOptions options{.draft = {.kind = Drafting::kSuffix},
                      .engine = {.context = context, .sequences = sequences}};
  options.backend.device = DeviceKind::kCpu;
  options.backend.threads = 1;
  model->load(options);
  return model;
}

Generation tokens(int count, uint64_t seed = 1) {
  Generation generation{.form = ReplyForm::kTokens, .max_tokens = count, .ignore_stop_ids = true};
  generation.sampling.temperature = 1;
  generation.sampling.seed = seed;
  return generation;
}

TEST(Model, replies_and_says_what_it_cost) {
  const auto model = make_model();
  const Reply reply = model->generate(model->request(Prompt({20, 21, 22}), tokens(16)));
  EXPECT_EQ(reply.tokens.size(), 16u);
  EXPECT_EQ(reply.finish, FinishReason::kMaxTokens);
  EXPECT_EQ(reply.stats.prompt_tokens, 3);
  EXPECT_EQ(reply.stats.output_tokens, 16);
  const Report report = measure(*model, reply.stats);
  EXPECT_GT(report.decode_rate(), 0);
  EXPECT_GT(report.bytes_per_pass, 0);
}

TEST(Model, tells_a_chat_reply_apart) {
  const auto model = make_model();
  text::Conversation conversation;
  conversation.turns.push_back({text::Role::kUser, "hi"});
  const Reply reply = model->generate(model->request(model->prompt(conversation), {.max_tokens = 40}));
  EXPECT_EQ(reply.reasoning, "deep water");
  EXPECT_EQ(reply.text, "The answer");
  EXPECT_EQ(reply.finish, FinishReason::kStopId);
}

TEST(Model, gives_every_thread_the_reply_it_would_get_alone) {
  const auto model = make_model();
  const auto reply_of = [&](int i) {
    const Prompt prompt({20 + i, 30 + i, 40 + i});
    return model->generate(model->request(prompt, tokens(24, static_cast<uint64_t>(i)))).tokens;
  };
  std::vector<std::vector<int>> alone, together(8);
  for (int i = 0; i < 8; ++i) alone.push_back(reply_of(i));
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] { together[static_cast<size_t>(i)] = reply_of(i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

TEST(Model, writes_the_same_without_drafting) {
  const auto model = make_model();
  Generation generation = tokens(40);
  std::vector<int> twice;
  for (int id = 100; id < 160; ++id) twice.push_back(id);
  twice.insert(twice.end(), {100, 101});
  const Prompt prompt(twice);
  const Reply drafted = model->generate(model->request(prompt, generation));
  generation.draft = false;
  const Reply plain = model->generate(model->request(prompt, generation));
  EXPECT_EQ(plain.tokens, drafted.tokens);
  EXPECT_GT(drafted.stats.speculation.drafted, 0);
  EXPECT_EQ(plain.stats.speculation.drafted, 0);
}

TEST(Model, scores_the_prompt_as_it_would_score_its_own_tokens) {
  const auto model = make_model();
  Generation generation = tokens(6);
  generation.sampling.logprobs = 2;
  Reply own;
  own.keep_records = true;
  model->generate(model->request(Prompt({20, 21}), generation), own);
  // The same tokens as a prompt: each gets the log-probability it had when it was sampled.
  std::vector<int> ids = {20, 21};
  ids.insert(ids.end(), own.tokens.begin(), own.tokens.end());
  generation.prompt_logprobs = 2;
  const Reply scored = model->generate(model->request(Prompt(ids), generation));
  ASSERT_EQ(scored.prompt.size(), ids.size());
  EXPECT_TRUE(std::isnan(scored.prompt[0].logprob));
  for (size_t i = 0; i < own.records.size(); ++i) {
    EXPECT_EQ(scored.prompt[i + 2].id, own.records[i].id);
    EXPECT_EQ(scored.prompt[i + 2].logprob, own.records[i].logprob);
    EXPECT_EQ(scored.prompt[i + 2].top.size(), 2u);
  }
}

TEST(Model, picks_no_stop_id_before_min_tokens_are_there) {
  const auto model = make_model();
  Generation generation = tokens(30);
  generation.sampling.temperature = 0;
  generation.stop_ids = {24};  // follows 23, the third token of this reply
  generation.sampling.logprobs = {};
  const Reply stopped = model->generate(model->request(Prompt({20, 21}), generation));
  EXPECT_EQ(stopped.finish, FinishReason::kStopId);
  const int written = stopped.stats.output_tokens;
  ASSERT_LT(written, 10);
  generation.min_tokens = 10;
  const Reply later = model->generate(model->request(Prompt({20, 21}), generation));
  EXPECT_GE(later.stats.output_tokens, 10);
  for (size_t i = 0; i < 10; ++i) EXPECT_NE(later.tokens[i], 24);
}

class Throws final : public ReplySink {
 public:
  void on_delta(const engine::Delta&) override {
    if (++deltas == 3) throw std::runtime_error("the disk is full");
  }
  int deltas = 0;
};

TEST(Model, passes_on_what_a_sink_throws_and_goes_on) {
  const auto model = make_model();
  Throws sink;
  EXPECT_THROW(model->generate(model->request(Prompt({20}), tokens(4000)), sink), std::runtime_error);
  EXPECT_EQ(sink.deltas, 3) << "a sink that threw hears nothing more";
  EXPECT_EQ(model->generate(model->request(Prompt({20}), tokens(4))).tokens.size(), 4u);
}

TEST(Model, ends_a_reply_when_it_is_told_to) {
  const auto model = make_model();
  Reply reply;
  int asked = 0;
  model->generate(model->request(Prompt({20}), tokens(4000)), reply, [&] { return ++asked > 5; });
  EXPECT_EQ(reply.finish, FinishReason::kCancelled);
  EXPECT_LT(reply.tokens.size(), 4000u);
}

TEST(Model, that_is_destroyed_gives_every_request_its_end) {
  std::atomic<int> ended{0}, cancelled{0};
  {
    const auto model = make_model(2);
    for (int i = 0; i < 6; ++i) {  // two run, four wait
      engine::Request request = model->request(Prompt({20 + i}), tokens(4000));
      request.sink = [&](const engine::Delta& delta) {
        ended += delta.finish != FinishReason::kNone ? 1 : 0;
        cancelled += delta.finish == FinishReason::kCancelled ? 1 : 0;
      };
      model->submit(std::move(request));
    }
  }
  EXPECT_EQ(ended, 6);
  EXPECT_EQ(cancelled, 6);
}

TEST(Model, says_how_much_there_is_to_do) {
  const auto model = make_model(2);
  EXPECT_EQ(model->load_now().running, 0);
  std::vector<uint64_t> ids;
  for (int i = 0; i < 5; ++i) {
    engine::Request request = model->request(Prompt({20 + i}), tokens(4000));
    request.sink = [](const engine::Delta&) {};
    ids.push_back(model->submit(std::move(request)));
  }
  model->between_steps([](backend::Backend&) {});  // a step has been done since
  model->between_steps([](backend::Backend&) {});
  const engine::Load load = model->load_now();
  EXPECT_EQ(load.running, 2);
  EXPECT_EQ(load.waiting, 3);
  EXPECT_EQ(load.sequences, 2);
  for (const uint64_t id : ids) model->cancel(id);
  while (model->load_now().running + model->load_now().waiting > 0) std::this_thread::yield();
}

TEST(Model, passes_on_what_work_between_steps_throws) {
  const auto model = make_model();
  EXPECT_THROW(model->between_steps([](backend::Backend&) { fail_usage("no"); }), Error);
}

TEST(Model, refuses_a_prompt_without_room_before_it_is_loaded) {
  Model model(synth::synthesize({.shape = "tiny-e2b"}));
  EXPECT_NO_THROW(model.require_room(10, 0));
  EXPECT_THROW(model.require_room(0, 0), Error);
  EXPECT_THROW(model.require_room(10, 10), Error);
  EXPECT_THROW(model.require_room(1, 1 << 24), Error);
  EXPECT_THROW(model.raw("hello"), Error) << "without a tokenizer there is no text";
}

}  // namespace
}  // namespace slip::session
