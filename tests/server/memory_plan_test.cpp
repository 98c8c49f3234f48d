// How long conversations may be, by arithmetic over made-up models of the published sizes and machines of every size.
#include "server/memory_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "session/model_report.h"
#include "support/program.h"
#include "synth/writer.h"

namespace slip::server {
namespace {

using session::BackendOptions;
using session::Drafting;

BackendOptions on_the_cpu() {
  return {.device = session::DeviceKind::kCpu};
}

/// Free memory of which the plan's share holds the model and one conversation of so many tokens, and a little more.
size_t free_for(const checkpoint::Checkpoint& checkpoint, int64_t context) {
  const auto needed = session::memory_needed(session::report_on(checkpoint), checkpoint.config, context);
  return static_cast<size_t>(static_cast<double>(needed) / 0.9) + 64;
}

std::string message_of(const std::function<void()>& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

TEST(MemoryPlan, users_24_the_context_is_the_largest_of_32k_to_256k_that_fits) {
  for (const char* shape : {"e2b", "12b", "26b-a4b"}) {
    const auto checkpoint = synth::synthesize({.shape = shape});
    const int most = checkpoint->config.max_positions;
    for (int context = most; context >= 1 << 15; context /= 2) {
      const size_t enough = free_for(*checkpoint, context);
      const auto with = [&](size_t bytes) {
        return plan_memory(*checkpoint, on_the_cpu(), {.free_bytes = bytes});
      };
      EXPECT_EQ(with(enough).context, context) << shape;
      EXPECT_GE(with(enough).conversations(context), 1);
      if (context == 1 << 15) continue;
      EXPECT_EQ(with(enough - (1 << 20)).context, context / 2) << shape;
    }
    EXPECT_EQ(plan_memory(*checkpoint, on_the_cpu(), {.free_bytes = size_t{1} << 40}).context, most);
  }
}

TEST(MemoryPlan, users_24_a_start_below_the_asked_size_is_refused_with_three_numbers) {
  const auto checkpoint = synth::synthesize({.shape = "e2b"});
  const size_t free = free_for(*checkpoint, 1 << 15) - (1 << 20);
  for (const int context : {0, 1 << 15, 100'000}) {
    const std::string said =
        message_of([&] { plan_memory(*checkpoint, on_the_cpu(), {.context = context, .free_bytes = free}); },
                   ErrorKind::kOutOfMemory);
    EXPECT_NE(said.find(std::to_string(context == 0 ? 1 << 15 : context)), std::string::npos) << said;
    size_t sizes = 0;
    for (size_t at = 0; (at = said.find("iB", at)) != std::string::npos; ++at) ++sizes;
    EXPECT_EQ(sizes, 3u) << "needed, free, left: " << said;
  }
  const std::string made_for =
      message_of([&] { plan_memory(*checkpoint, on_the_cpu(), {.context = 200'000, .free_bytes = 1}); },
                 ErrorKind::kUsage);
  EXPECT_NE(made_for.find("131072"), std::string::npos) << made_for;
}

TEST(MemoryPlan, what_drafters_take_is_counted) {
  const auto checkpoint = synth::synthesize({.shape = "e2b"});
  const size_t free = free_for(*checkpoint, 1 << 17);
  MemoryWish wish{.drafters = {.weights = 2 << 20}, .free_bytes = free};
  EXPECT_EQ(plan_memory(*checkpoint, on_the_cpu(), wish).context, 1 << 16) << "their weights";
  wish.drafters = {.weights = 0, .sequence_at = [](int64_t tokens) { return static_cast<size_t>(tokens); }};
  EXPECT_EQ(plan_memory(*checkpoint, on_the_cpu(), wish).context, 1 << 16) << "what they keep of a sequence";
}

class MemoryPlanPair : public testing::Test {
 protected:
  void SetUp() override {
    const synth::SynthOptions options{.shape = "tiny-e2b", .bits = 8};
    synth::write_folder(*synth::synthesize(options), folder_.path("m"));
    synth::write_assistant(*synth::synthesize_assistant(options), folder_.path("m-assistant"));
    model_ = session::Model::open(folder_.path("m"));
    // So little that the model and lookups in the text fit, and nothing beside them.
    tight_ = free_for(model_->checkpoint(), model_->config().max_positions);
    const int most = model_->config().max_positions;
    model_->open_drafters({.kind = Drafting::kSuffix});
    tight_ += static_cast<size_t>(static_cast<double>(model_->draft_memory().sequence_at(most)) / 0.9) + 64;
    model_->open_drafters({});
    assistant_ = model_->draft_memory().weights;
  }
  DraftedPlan plan(const session::DraftOptions& draft, size_t free) {
    return plan_with_drafters(*model_, on_the_cpu(), draft, {.free_bytes = free});
  }
  test::TemporaryFolder folder_;
  std::unique_ptr<session::Model> model_;
  size_t tight_ = 0, assistant_ = 0;
};

TEST_F(MemoryPlanPair, a_drafter_that_was_found_and_does_not_fit_is_left_out_with_a_line) {
  ASSERT_GT(assistant_, 0u);
  const DraftedPlan roomy = plan({}, tight_ + 2 * assistant_);
  EXPECT_EQ(roomy.left_out, "");
  EXPECT_EQ(model_->drafter_paths().size(), 1u);
  const DraftedPlan tight = plan({}, tight_);
  EXPECT_NE(tight.left_out.find("m-assistant"), std::string::npos) << tight.left_out;
  EXPECT_EQ(tight.draft.kind, Drafting::kSuffix);
  EXPECT_TRUE(model_->drafter_paths().empty());
}

TEST_F(MemoryPlanPair, a_drafter_that_was_named_and_does_not_fit_ends_the_start_with_a_sentence) {
  const std::string said =
      message_of([&] { plan({.models = {folder_.path("m-assistant")}}, tight_); }, ErrorKind::kOutOfMemory);
  EXPECT_NE(said.find("m-assistant"), std::string::npos) << said;
  EXPECT_NE(said.find("free memory"), std::string::npos) << said;
}

}  // namespace
}  // namespace slip::server
