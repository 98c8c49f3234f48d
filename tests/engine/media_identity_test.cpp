// The identity suite behind pictures, on the CPU: whatever drafts, whatever shares the batch, however the prompt is cut, a
// reply behind pictures is the same.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "checkpoint/assistant.h"
#include "checkpoint/dflash.h"
#include "engine/fake_drafting.h"
#include "support/identity_suite.h"
#include "support/sanitized.h"
#include "support/soft_pictures.h"

namespace slip::engine {
namespace {

constexpr int kRows = 128;  // of a step

class MediaIdentity : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = std::string(SLIP_GOLDEN) + "/" + GetParam();
    target_ = checkpoint::open(folder + "/target");
    assistant_ = checkpoint::open_assistant(folder + "/assistant", target_->config);
    dflash_ = checkpoint::open_dflash(folder + "/dflash", target_->config);
    pictures_ = std::make_unique<test::SoftPictures>(target_->config);
    backend_ = load();
  }

  std::unique_ptr<backend::Backend> load() const {
    backend::cpu::CpuOptions cpu;
    cpu.threads = 2;
    cpu.max_rows = kRows;
    return backend::cpu::load(target_->config, target_->weights, cpu);
  }

  /// One picture, two behind each other, two with text between, none.
  void show(Request& request, int index) const {
    switch (index % 4) {
      case 0: return pictures_->insert(request, 1, 40, 3);
      case 1: pictures_->insert(request, 1, 33, 2); return pictures_->insert(request, 2, 30, 2 + 33);
      case 2: pictures_->insert(request, 3, 60, 1); return pictures_->insert(request, 1, 21, 1 + 60 + 5);
      default: return;
    }
  }

  Request request(int index, int tokens = 24) const {
    Request made;
    for (int i = 0; i < 12 + 5 * index; ++i)
      made.prompt.push_back(
          static_cast<int>(20 + keyed_bits(5, static_cast<uint64_t>(31 * index + i)) % 200));
    show(made, index);
    made.max_tokens = tokens;
    made.sampling.temperature = index % 2 == 0 ? 0.0f : 1.0f;
    made.sampling.seed = static_cast<uint64_t>(index);
    return made;
  }

  static std::vector<int> run(Engine& engine, std::vector<Request> requests,
                              std::vector<std::vector<int>>& replies,
                              const std::function<void(int step)>& between = {}) {
    replies.assign(requests.size(), {});
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].sink = [&reply = replies[i]](const Delta& delta) {
        EXPECT_NE(delta.finish, FinishReason::kError) << delta.error;
        if (delta.token >= 0) reply.push_back(delta.token);
      };
      engine.submit(std::move(requests[i]));
    }
    for (int step = 0; engine.step(); ++step) {
      if (between) between(step);
    }
    return replies.front();
  }
  std::vector<int> alone(Request one, const EngineOptions& options = {}) {
    Engine engine(*backend_, options);
    std::vector<std::vector<int>> replies;
    std::vector<Request> list;
    list.push_back(std::move(one));
    return run(engine, std::move(list), replies);
  }

  std::unique_ptr<checkpoint::Checkpoint> target_;
  std::unique_ptr<checkpoint::AssistantCheckpoint> assistant_;
  std::unique_ptr<checkpoint::DflashCheckpoint> dflash_;
  std::unique_ptr<test::SoftPictures> pictures_;
  std::unique_ptr<backend::Backend> backend_;
};

TEST_P(MediaIdentity, speculation_cannot_be_seen_behind_pictures) {
  test::IdentitySuite suite(*backend_, {.prompt = 20,
                                        .tokens = 30,
                                        .few = test::kSanitized,
                                        .show = [this](Request& one, int index) { show(one, index); }});
  backend_->set_taps(dflash_->config.taps);
  const auto mtp = backend_->load_assistant(assistant_->config, assistant_->weights, {.max_rows = 4});
  const auto block = backend_->load_dflash(dflash_->config, dflash_->weights, {.max_rows = 32});
  const int vocab = backend_->config().vocab;
  const auto suffix = [&] {
    return std::make_unique<speculate::SuffixDrafter>(backend_->config().placeholder_ids);
  };
  const std::vector<std::pair<const char*, test::IdentitySuite::NewSpeculator>> kinds = {
      {"mtp",
       [&] { return fake_speculator(vocab, {.fixed = 4}, std::make_unique<speculate::MtpDrafter>(*mtp)); }},
      {"dflash",
       [&] {
         return fake_speculator(vocab, {.fixed = 5}, std::make_unique<speculate::DflashDrafter>(*block));
       }},
      {"suffix", [&] { return fake_speculator(vocab, {.fixed = 4}, suffix()); }},
      {"mixed", [&] {
         return fake_speculator(vocab, {}, std::make_unique<speculate::MtpDrafter>(*mtp),
                                std::make_unique<speculate::DflashDrafter>(*block), suffix());
       }}};
  for (const auto& [name, speculator] : kinds) {
    const auto result = suite.differences(speculator);
    for (const auto& difference : result.differences) ADD_FAILURE() << name << ": " << difference;
    for (const auto& failure : result.failures) ADD_FAILURE() << name << ": " << failure;
    // Texts of random weights need not repeat themselves.
    if (name != std::string_view("suffix")) {
      EXPECT_GT(result.drafted, 0) << name;
    }
  }
}

TEST_P(MediaIdentity, three_and_eight_together_get_what_each_gets_alone) {
  for (const int count : {3, 8}) {
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) requests.push_back(request(i));
    Engine engine(*backend_, {.sequences = count});
    std::vector<std::vector<int>> together;
    run(engine, std::move(requests), together);
    for (int i = 0; i < count; ++i)
      EXPECT_EQ(together[static_cast<size_t>(i)], alone(request(i))) << i << " of " << count;
  }
}

TEST_P(MediaIdentity, a_prompt_with_pictures_may_be_cut_anywhere_but_in_a_block) {
  for (int i = 0; i < 3; ++i) {
    const std::vector<int> whole = alone(request(i));
    for (const int rows : {61, 67, 90})
      EXPECT_EQ(alone(request(i), {.sequences = 1, .step_rows = rows}), whole) << rows;
  }
}

TEST_P(MediaIdentity, a_sequence_that_was_put_aside_comes_back_with_its_pictures) {
  for (const int when : {1, 3, 9}) {
    std::vector<Request> requests;
    for (int i = 0; i < 3; ++i) requests.push_back(request(i));
    Engine engine(*backend_, {.sequences = 3});
    std::vector<std::vector<int>> replies;
    run(engine, std::move(requests), replies, [&](int step) {
      if (step % 12 == when) engine.put_aside_youngest();
    });
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(replies[static_cast<size_t>(i)], alone(request(i))) << i << " at " << when;
  }
}

TEST_P(MediaIdentity, pictures_matter_and_so_does_their_order) {
  const auto with = [&](int first, int second) {
    Request one = request(3, 40);
    pictures_->insert(one, first, 30, 2);
    pictures_->insert(one, second, 30, 2 + 30 + 4);
    one.sampling.temperature = 0;
    return alone(std::move(one));
  };
  const std::vector<int> right = with(1, 2);
  EXPECT_EQ(with(1, 2), right);
  EXPECT_NE(with(2, 1), right);
  EXPECT_NE(with(1, 3), right);
}

TEST_P(MediaIdentity, a_prefix_hit_behind_a_picture_gives_the_same_bits) {
  Engine engine(*backend_, {.sequences = 2});
  struct Got {
    std::vector<int> tokens;
    int cached = -1;
  };
  const auto ask = [&](int picture, int tail) {
    Request one;
    for (int i = 0; i < 200; ++i) one.prompt.push_back(20 + i % 100);
    pictures_->insert(one, picture, 40, 10);
    for (int i = 0; i < tail; ++i) one.prompt.push_back(30 + i);
    one.max_tokens = 12;
    one.sampling.temperature = 1;
    Got got;
    one.sink = [&](const Delta& delta) {
      EXPECT_NE(delta.finish, FinishReason::kError) << delta.error;
      if (delta.token >= 0) got.tokens.push_back(delta.token);
      if (delta.stats != nullptr) got.cached = delta.stats->cached_tokens;
    };
    engine.submit(std::move(one));
    engine.run_until_done();
    return got;
  };
  const Got cold = ask(1, 3), warm = ask(1, 3), other = ask(2, 3), other_warm = ask(2, 3);
  EXPECT_EQ(cold.cached, 0);
  EXPECT_GT(warm.cached, 50) << "behind the picture";
  EXPECT_EQ(warm.tokens, cold.tokens);
  EXPECT_LE(other.cached, 10) << "another picture is another prefix";
  EXPECT_NE(other.tokens, cold.tokens);
  EXPECT_EQ(other_warm.tokens, other.tokens);
  EXPECT_EQ(ask(1, 3).tokens, cold.tokens);
  EXPECT_GT(ask(1, 9).cached, 50);
}

INSTANTIATE_TEST_SUITE_P(Golden, MediaIdentity, testing::Values("e2b", "dense", "moe", "unified"),
                         [](const auto& at) { return std::string(at.param); });

}  // namespace
}  // namespace slip::engine
