// Whether a model fits, by arithmetic; and that the memory's speed is measured at all.
#include "session/fit.h"

#include <gtest/gtest.h>

#include "session/model_report.h"
#include "synth/synthetic.h"

namespace slip::session {
namespace {

TEST(Fit, the_longest_context_is_the_last_that_fits) {
  synth::SynthOptions options{.shape = "tiny-e2b", .bits = 8};
  const auto checkpoint = synth::synthesize(options);
  const ModelReport report = report_on(*checkpoint);
  const auto needed = [&](int64_t context) { return memory_needed(report, checkpoint->config, context); };
  const int64_t longest = checkpoint->config.max_positions;
  ASSERT_GE(longest, 4 * kShortContext);

  const Fit all = fit_of(*checkpoint, needed(longest));
  EXPECT_EQ(all.context, longest);
  EXPECT_EQ(all.longest, longest);
  for (const int64_t context : {kShortContext, 2 * kShortContext, longest / 2 / 1024 * 1024}) {
    EXPECT_EQ(fit_of(*checkpoint, needed(context)).context, context);
    const int64_t less = fit_of(*checkpoint, needed(context) - 1).context;
    EXPECT_EQ(less, context == kShortContext ? 0 : context - 1024);
  }
  EXPECT_FALSE(fit_of(*checkpoint, needed(kShortContext) - 1).fits());
  EXPECT_EQ(fit_of(*checkpoint, 0).context, longest) << "nothing is known of this machine";
}

TEST(Fit, the_speed_follows_from_the_bytes_of_a_token) {
  const Fit fit{.bytes_per_token = 1'000'000'000};
  EXPECT_DOUBLE_EQ(expected_speed(fit, 40e9), 32);
  EXPECT_EQ(expected_speed(fit, 0), 0);
  EXPECT_EQ(expected_speed(Fit{}, 40e9), 0);
#if defined(__x86_64__)
  EXPECT_GT(quick_read_bandwidth(), 0);
#endif
}

}  // namespace
}  // namespace slip::session
