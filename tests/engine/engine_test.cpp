#include "engine/engine.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/fake_backend.h"

namespace slip::engine {
namespace {

Collected alone(Request request) {
  FakeBackend backend;
  Engine engine(backend);
  Collected out;
  request.sink = out.sink();
  engine.submit(std::move(request));
  engine.run_until_done();
  return out;
}

uint64_t submit(Engine& engine, Request request, Collected& out) {
  request.sink = out.sink();
  return engine.submit(std::move(request));
}

Request varied_request(int i) {
  Request request = fake_request(1 + i * 7 % 90, 5 + i * 11 % 40, static_cast<uint64_t>(i));
  if (i % 3 == 0) request.sampling.temperature = 0;
  if (i % 4 == 1) request.sampling.top_k = 10;
  if (i % 4 == 2) request.sampling.frequency_penalty = 0.5f;
  if (i % 5 == 1) request.stop_ids = {4, 9};
  if (i % 5 == 2) request.stop_strings = {"abc", "bbd"};
  if (i % 6 == 3) request.sampling.top_logprobs = 2;
  return request;
}

TEST(Engine, writes_what_model_and_sampler_say) {
  const Request request = fake_request(13, 25, 3);
  const Collected out = alone(fake_request(13, 25, 3));
  EXPECT_EQ(out.tokens, generate_plainly(request.prompt, request.sampling, 25));
  EXPECT_EQ(out.text, text_of(out.tokens));
  EXPECT_EQ(out.finish, FinishReason::kMaxTokens);
}

TEST(Engine, sequences_that_join_and_leave_get_exactly_what_they_get_alone) {
  for (const int step_rows : {5, 16, 64}) {
    FakeBackend backend(step_rows);
    Engine engine(backend, {.sequences = 12, .mixed_prompt_rows = 6});
    std::vector<Collected> outs(30);
    for (int i = 0; i < 30; ++i) {
      submit(engine, varied_request(i), outs[static_cast<size_t>(i)]);
      for (int steps = 0; steps < i % 4; ++steps) engine.step();
    }
    engine.run_until_done();
    for (int i = 0; i < 30; ++i) {
      SCOPED_TRACE(i);
      outs[static_cast<size_t>(i)].expect_equal(alone(varied_request(i)));
    }
    EXPECT_EQ(backend.pages().bytes_live(), backend.pages().bytes_held_only());
  }
}

TEST(Engine, a_prompt_in_chunks_wants_output_only_for_its_last_row) {
  FakeBackend backend(7);
  int outputs = 0;
  backend.before_run = [&](const backend::Batch& batch) {
    for (const auto& row : batch.rows) {
      outputs += row.output ? 1 : 0;
      EXPECT_EQ(row.output, row.position >= 99);
    }
  };
  Engine engine(backend);
  Collected out;
  submit(engine, fake_request(100, 4, 1), out);
  for (int step = 0; step < 14; ++step) engine.step();
  EXPECT_TRUE(out.tokens.empty());
  engine.step();  // 15 chunks of 7 hold 100 tokens
  EXPECT_EQ(out.tokens.size(), 1u);
  engine.run_until_done();
  EXPECT_EQ(outputs, 4);
  out.expect_equal(alone(fake_request(100, 4, 1)));
}

TEST(Engine, a_stop_id_ends_the_output_and_is_not_part_of_its_text) {
  const Collected plain = alone(fake_request(5, 30, 8));
  Request request = fake_request(5, 30, 8);
  request.stop_ids = {1000000, plain.tokens[6]};
  const Collected out = alone(std::move(request));
  EXPECT_EQ(out.finish, FinishReason::kStopId);
  const auto end = std::find(plain.tokens.begin(), plain.tokens.end(), plain.tokens[6]);
  EXPECT_EQ(out.tokens, std::vector<int>(plain.tokens.begin(), end + 1));
  EXPECT_EQ(out.text, text_of(std::vector<int>(plain.tokens.begin(), end)));
  EXPECT_EQ(out.stats.output_tokens, static_cast<int>(out.tokens.size()) - 1);
}

TEST(Engine, a_stop_string_cuts_the_text_right_before_it) {
  const Collected plain = alone(fake_request(5, 60, 9));
  for (size_t begin = 0; begin + 6 < plain.text.size(); begin += 5) {
    Request request = fake_request(5, 60, 9);
    request.stop_strings = {plain.text.substr(begin, 6), "never in the text"};
    const size_t first = plain.text.find(request.stop_strings[0]);
    const Collected out = alone(std::move(request));
    EXPECT_EQ(out.finish, FinishReason::kStopString);
    EXPECT_EQ(out.text, plain.text.substr(0, first));
    EXPECT_TRUE(std::equal(out.tokens.begin(), out.tokens.end(), plain.tokens.begin()));
    EXPECT_EQ(out.deltas_after_the_end, 0);
  }
}

TEST(Engine, text_held_back_for_a_stop_string_comes_with_the_end) {
  const Collected plain = alone(fake_request(5, 20, 9));
  Request request = fake_request(5, 20, 9);
  request.stop_strings = {plain.text.substr(plain.text.size() - 4) + "and more"};
  alone(std::move(request)).expect_equal(plain);
}

TEST(Engine, the_context_bounds_prompt_and_output_together) {
  FakeBackend backend;
  Engine engine(backend, {.context = 30});
  EXPECT_EQ(engine.context(), 30);
  Collected filled, exact, last;
  submit(engine, fake_request(20, 100, 1), filled);
  submit(engine, fake_request(20, 10, 1), exact);
  submit(engine, fake_request(29, std::numeric_limits<int>::max(), 2), last);
  engine.run_until_done();
  EXPECT_EQ(filled.finish, FinishReason::kContext);
  EXPECT_EQ(filled.tokens.size(), 10u);
  EXPECT_EQ(exact.finish, FinishReason::kMaxTokens);
  EXPECT_EQ(exact.tokens, filled.tokens);
  EXPECT_EQ(last.finish, FinishReason::kContext);
  EXPECT_EQ(last.tokens.size(), 1u);
}

TEST(Engine, cancelling_one_leaves_the_others_untouched) {
  FakeBackend backend(16);
  Engine engine(backend, {.sequences = 3});
  std::vector<Collected> outs(5);
  std::vector<uint64_t> ids;
  for (int i = 0; i < 5; ++i)
    ids.push_back(
        submit(engine, fake_request(10, 20, static_cast<uint64_t>(i)), outs[static_cast<size_t>(i)]));
  for (int step = 0; step < 6; ++step) engine.step();
  EXPECT_EQ(engine.running(), 3);
  engine.cancel(ids[1]);  // running
  engine.cancel(ids[4]);  // waiting
  engine.cancel(999);     // nobody
  engine.step();
  EXPECT_EQ(outs[1].finish, FinishReason::kCancelled);
  EXPECT_EQ(outs[4].finish, FinishReason::kCancelled);
  EXPECT_EQ(engine.running(), 3);
  engine.run_until_done();
  engine.cancel(ids[0]);  // already over
  EXPECT_FALSE(engine.step());
  for (const size_t i : {0, 2, 3}) outs[i].expect_equal(alone(fake_request(10, 20, i)));
  const Collected whole = alone(fake_request(10, 20, 1));
  EXPECT_GT(outs[1].tokens.size(), 0u);
  EXPECT_TRUE(whole.text.starts_with(outs[1].text));
  EXPECT_EQ(outs[1].text, text_of(outs[1].tokens));
  EXPECT_TRUE(outs[4].tokens.empty());
  EXPECT_EQ(backend.pages().bytes_live(), backend.pages().bytes_held_only());
}

TEST(Engine, a_sink_may_cancel_and_submit) {
  FakeBackend backend;
  Engine engine(backend);
  Collected first, second;
  uint64_t id = 0;
  Request request = fake_request(4, 50, 1);
  request.sink = [&, collect = first.sink()](const Delta& delta) {
    collect(delta);
    if (first.tokens.size() == 3 && delta.finish == FinishReason::kNone) {
      engine.cancel(id);
      submit(engine, fake_request(4, 5, 2), second);
    }
  };
  id = engine.submit(std::move(request));
  engine.run_until_done();
  EXPECT_EQ(first.finish, FinishReason::kCancelled);
  EXPECT_EQ(first.tokens.size(), 3u);
  second.expect_equal(alone(fake_request(4, 5, 2)));
}

TEST(Engine, refuses_a_bad_request_at_once_with_a_sentence) {
  FakeBackend backend;
  Engine engine(backend, {.context = 50});
  const auto refusal = [&](const std::function<void(Request&)>& change) -> std::string {
    Request request = fake_request(5, 5, 1);
    request.sink = [](const Delta&) { ADD_FAILURE() << "a refused request must not call its sink"; };
    change(request);
    try {
      engine.submit(std::move(request));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal([](Request& r) { r.prompt.clear(); }).find("prompt is empty"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.prompt[3] = 40; }).find("holds token 40"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.prompt[3] = -1; }).find("holds token -1"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.prompt.resize(50); }).find("at most 49"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.max_tokens = 0; }).find("max_tokens"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.sampling.top_p = 0; }).find("top_p"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) { r.sampling.suppressed = {40}; }).find("suppressed"), std::string::npos);
  EXPECT_NE(refusal([](Request& r) {
              r.stop_strings = {"a", ""};
            }).find("stop string is empty"),
            std::string::npos);
  EXPECT_NE(refusal([](Request& r) {
              r.stop_strings = {"a"};
              r.reply = nullptr;
            }).find("need text"),
            std::string::npos);
  EXPECT_FALSE(engine.step());
}

TEST(Engine, refuses_options_that_make_no_sense) {
  FakeBackend backend;
  EXPECT_THROW(Engine(backend, {.context = 5000}), Error);
  EXPECT_THROW(Engine(backend, {.context = -1}), Error);
  EXPECT_THROW(Engine(backend, {.sequences = 0}), Error);
  EXPECT_THROW(Engine(backend, {.step_rows = -1}), Error);
  EXPECT_THROW(Engine(backend, {.mixed_prompt_rows = 0}), Error);
}

TEST(Engine, a_request_without_text_gets_tokens) {
  Request request = fake_request(5, 9, 4);
  request.reply = nullptr;
  const Collected out = alone(std::move(request));
  EXPECT_EQ(out.tokens, alone(fake_request(5, 9, 4)).tokens);
  EXPECT_EQ(out.text, "");
}

TEST(Engine, requests_wait_in_order_while_memory_is_short) {
  FakeBackend backend;
  const size_t page = backend.kv_layout().bytes_at(1);
  Engine engine(backend, {.cache_bytes = 4 * page});
  Collected two_pages, three_pages, small;
  submit(engine, fake_request(300, 10, 1), two_pages);
  submit(engine, fake_request(520, 20, 3), three_pages);
  submit(engine, fake_request(10, 5, 4), small);
  engine.step();
  EXPECT_EQ(engine.running(), 1);
  EXPECT_EQ(engine.waiting(), 2);  // the small one would fit, but does not overtake
  while (two_pages.finish == FinishReason::kNone) {
    EXPECT_TRUE(three_pages.tokens.empty());
    engine.step();
  }
  engine.step();
  EXPECT_EQ(engine.running(), 1);
  EXPECT_EQ(engine.waiting(), 1);
  engine.run_until_done();
  EXPECT_EQ(backend.pages().bytes_live(), backend.pages().bytes_held_only());
  two_pages.expect_equal(alone(fake_request(300, 10, 1)));
  three_pages.expect_equal(alone(fake_request(520, 20, 3)));
  small.expect_equal(alone(fake_request(10, 5, 4)));
  EXPECT_GT(small.stats.queued_s, 0);
}

TEST(Engine, where_pages_run_out_the_youngest_is_put_aside_and_comes_back_unchanged) {
  FakeBackend backend;
  const size_t page = backend.kv_layout().bytes_at(1);
  Engine engine(backend, {.cache_bytes = 7 * page});
  std::vector<Collected> outs(4);
  for (size_t i = 0; i < 4; ++i) submit(engine, fake_request(50, 600, i), outs[i]);
  engine.run_until_done();
  EXPECT_EQ(outs[0].stats.preempted, 0);
  EXPECT_GT(outs[3].stats.preempted, 0);
  for (size_t i = 0; i < 4; ++i) outs[i].expect_equal(alone(fake_request(50, 600, i)));
  EXPECT_EQ(backend.pages().bytes_live(), backend.pages().bytes_held_only());
}

TEST(Engine, a_prompt_that_can_never_fit_is_refused_with_both_sizes) {
  FakeBackend backend;
  Engine engine(backend, {.cache_bytes = 2 * backend.kv_layout().bytes_at(1)});
  Request request = fake_request(520, 300, 1);
  request.sink = [](const Delta&) {};
  try {
    engine.submit(std::move(request));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("521 tokens need a cache of"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("enough for 512"), std::string::npos);
  }
}

TEST(Engine, a_text_ends_where_all_pages_are_its_own_and_full) {
  FakeBackend backend;
  Engine engine(backend, {.cache_bytes = 2 * backend.kv_layout().bytes_at(1)});
  Collected out;
  submit(engine, fake_request(300, 300, 1), out);
  engine.run_until_done();
  EXPECT_EQ(out.finish, FinishReason::kContext);
  EXPECT_EQ(out.tokens.size(), 212u);
}

TEST(Engine, a_text_being_written_gets_a_token_in_every_step_while_a_long_prompt_is_read) {
  FakeBackend backend(64);
  Engine engine(backend, {.mixed_prompt_rows = 32});
  Collected writing, reading;
  submit(engine, fake_request(3, 40, 1), writing);
  engine.step();
  submit(engine, fake_request(640, 3, 2), reading);
  for (size_t step = 1; step <= 20; ++step) {
    EXPECT_TRUE(reading.tokens.empty());
    engine.step();
    EXPECT_EQ(writing.tokens.size(), 1 + step);
  }
  engine.step();
  EXPECT_EQ(reading.tokens.size(), 1u);  // a step without it to be compared with, and 20 of 32 rows
}

TEST(Engine, a_short_prompt_does_not_wait_behind_a_long_one) {
  FakeBackend backend(16);
  Engine engine(backend);
  Collected long_one, short_one;
  submit(engine, fake_request(1000, 3, 1), long_one);
  engine.step();
  submit(engine, fake_request(8, 3, 2), short_one);
  engine.step();
  EXPECT_EQ(short_one.tokens.size(), 1u);
  EXPECT_TRUE(long_one.tokens.empty());
}

TEST(Engine, a_row_that_cannot_be_sampled_ends_its_own_request_only) {
  FakeBackend backend;
  Engine engine(backend);
  const Collected good = alone(fake_request(10, 15, 1));
  Collected out, broken;
  Request request = fake_request(10, 15, 2);
  request.prompt.back() = 39;
  for (const int token : good.tokens) ASSERT_NE(token, 39);
  backend.poison = 39;
  submit(engine, fake_request(10, 15, 1), out);
  submit(engine, std::move(request), broken);
  engine.run_until_done();
  out.expect_equal(good);
  EXPECT_EQ(broken.finish, FinishReason::kError);
  EXPECT_NE(broken.error.find("NaN"), std::string::npos);
  EXPECT_TRUE(broken.tokens.empty());
}

TEST(Engine, a_failing_step_ends_the_requests_in_it_and_the_engine_goes_on) {
  FakeBackend backend;
  Engine engine(backend);
  Collected first, second;
  submit(engine, fake_request(10, 15, 1), first);
  engine.step();
  backend.before_run = [](const backend::Batch&) { fail(ErrorKind::kRuntime, "the device is gone"); };
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(first.finish, FinishReason::kError);
  EXPECT_EQ(first.error, "the device is gone");
  backend.before_run = nullptr;
  submit(engine, fake_request(10, 15, 2), second);
  engine.run_until_done();
  second.expect_equal(alone(fake_request(10, 15, 2)));
}

TEST(Engine, statistics_add_up) {
  const Collected out = alone(fake_request(50, 20, 1));
  EXPECT_EQ(out.stats.prompt_tokens, 50);
  EXPECT_EQ(out.stats.output_tokens, 20);
  EXPECT_GT(out.stats.prompt_s, 0);
  EXPECT_GT(out.stats.decode_s, 0);
  EXPECT_NEAR(out.stats.first_token_s, out.stats.queued_s + out.stats.prompt_s, 1e-9);
}

TEST(Engine, requests_and_cancellations_come_from_many_threads) {
  FakeBackend backend(16);
  Engine engine(backend, {.sequences = 4});
  constexpr size_t kClients = 4, kEach = 10;
  std::vector<Collected> outs(kClients * kEach);
  std::atomic<size_t> open{kClients};
  std::vector<std::thread> clients;
  for (size_t client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      for (size_t i = 0; i < kEach; ++i) {
        const size_t index = client * kEach + i;
        const uint64_t id = submit(engine, fake_request(5 + static_cast<int>(index), 12, index), outs[index]);
        if (i % 5 == 4) engine.cancel(id);
      }
      --open;
    });
  }
  while (open > 0 || engine.step()) engine.step();
  for (auto& client : clients) client.join();
  engine.run_until_done();
  for (size_t index = 0; index < outs.size(); ++index) {
    if (index % kEach % 5 == 4) {
      EXPECT_NE(outs[index].finish, FinishReason::kNone);
    } else {
      outs[index].expect_equal(alone(fake_request(5 + static_cast<int>(index), 12, index)));
    }
  }
}

// Two pictures whose rows see each other, beside a text that is being written.
/// Rows that an encoder is still at work on.
class LaterRows final : public backend::SoftRows {
 public:
  int rows() const override { return 8; }
  size_t bytes() const override { return 0; }
  const float* host_row(int row) const override { return made_.host_row(row); }
  const SoftRows* made() const override {
    if (failed) fail(ErrorKind::kRuntime, "the encoder stumbled");
    return done ? &made_ : nullptr;
  }

  bool done = false, failed = false;

 private:
  backend::HostSoftRows made_{std::vector<float>(4 * 8), 4};
};

TEST(Engine, a_request_that_waits_for_its_picture_keeps_nobody_waiting) {
  FakeBackend backend;
  Engine engine(backend);
  const auto rows = std::make_shared<LaterRows>(), broken = std::make_shared<LaterRows>();
  const auto showing = [](const std::shared_ptr<LaterRows>& soft) {
    Request request = fake_request(20, 6, 2);
    request.media = {{.first = 4, .rows = 8, .soft = soft}};
    return request;
  };
  Collected first, wrong, second;
  submit(engine, showing(rows), first);
  submit(engine, showing(broken), wrong);
  submit(engine, fake_request(20, 6, 2), second);
  for (int i = 0; i < 20; ++i) engine.step();
  EXPECT_EQ(second.finish, FinishReason::kMaxTokens);
  EXPECT_EQ(first.finish, FinishReason::kNone);
  EXPECT_EQ(engine.waiting(), 2);

  broken->failed = true;
  engine.step();
  EXPECT_EQ(wrong.finish, FinishReason::kError);
  EXPECT_EQ(wrong.error, "the encoder stumbled");
  EXPECT_EQ(engine.waiting(), 1);
  rows->done = true;
  engine.run_until_done();
  EXPECT_EQ(first.tokens, second.tokens);
}

TEST(Engine, rows_of_a_picture_come_in_one_step_with_their_soft_rows) {
  FakeBackend backend(32);
  const auto soft = std::make_shared<backend::HostSoftRows>(std::vector<float>(4 * 20), 4);
  int blocks = 0;
  backend.before_run = [&](const backend::Batch& batch) {
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      const backend::Row& row = batch.rows[i];
      const bool first_image = row.position >= 7 && row.position < 27;
      const bool second_image = row.position >= 30 && row.position < 42;
      const bool seeing = batch.sequences.size() == 2 && row.sequence == 1;
      ASSERT_EQ(row.soft != nullptr, seeing && (first_image || second_image));
      if (row.soft == nullptr) continue;
      EXPECT_EQ(row.soft, soft.get());
      EXPECT_EQ(row.soft_row, row.position - (first_image ? 7 : 30));
      EXPECT_EQ(row.span_end, first_image ? 27 : 42);
      if (row.soft_row > 0) continue;
      ++blocks;
      const auto last = i + static_cast<size_t>(row.span_end - row.position) - 1;
      ASSERT_LT(last, batch.rows.size());
      EXPECT_EQ(batch.rows[last].position, row.span_end - 1);
    }
  };
  Engine engine(backend, {.sequences = 4, .mixed_prompt_rows = 8});
  std::vector<Collected> outs(2);
  Request text = fake_request(5, 40, 1);
  text.sink = outs[0].sink();
  engine.submit(std::move(text));
  for (int i = 0; i < 3; ++i) engine.step();
  Request seeing = fake_request(60, 20, 2);
  seeing.media = {{.first = 7, .rows = 20, .both_ways = true, .soft = soft},
                  {.first = 30, .rows = 12, .both_ways = true, .soft = soft}};
  const std::vector<int> expected = generate_plainly(seeing.prompt, seeing.sampling, 20);
  seeing.sink = outs[1].sink();
  engine.submit(std::move(seeing));
  engine.run_until_done();
  EXPECT_EQ(blocks, 2);
  EXPECT_EQ(outs[1].tokens, expected);
  EXPECT_EQ(outs[0].tokens.size(), 40u);
}

TEST(Engine, a_picture_too_large_for_a_step_is_refused) {
  FakeBackend backend(32);
  Engine engine(backend, {.sequences = 4});
  Request request = fake_request(60, 20, 2);
  request.sink = [](const Delta&) {};
  request.media = {{.first = 7,
                    .rows = 30,
                    .both_ways = true,
                    .soft = std::make_shared<backend::HostSoftRows>(std::vector<float>(4 * 30), 4)}};
  EXPECT_THROW(engine.submit(std::move(request)), Error);
}

}  // namespace
}  // namespace slip::engine
