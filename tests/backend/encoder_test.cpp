// What every encoder promises, on one without a network.
#include "backend/encoder.h"

#include <gtest/gtest.h>

#include "support/fake_encoder.h"

namespace slip::backend {
namespace {

EncoderInput picture(std::span<const float> patches, int soft_rows) {
  return {.patches = patches,
          .positions = {},
          .patch_floats = 1,
          .columns = static_cast<int>(patches.size()),
          .rows = 1,
          .soft_rows = soft_rows};
}

TEST(Encoder, yields_its_rows_with_the_last_slice_and_may_begin_again) {
  test::FakeEncoder encoder(4);
  const std::vector<float> patches = {1, 2, 3};
  for (int round = 0; round < 2; ++round) {
    encoder.begin(picture(patches, 2));
    EXPECT_EQ(encoder.run_slice(1), nullptr);
    EXPECT_EQ(encoder.run_slice(1), nullptr);
    const SoftRowsHandle rows = encoder.run_slice(1);
    ASSERT_NE(rows, nullptr);
    EXPECT_EQ(rows->rows(), 2);
    EXPECT_EQ(rows->host_row(1)[3], 3.0f);
    EXPECT_EQ(rows->bytes(), 8 * sizeof(float));
  }
}

TEST(Encoder, that_was_cancelled_takes_another_item) {
  test::FakeEncoder encoder(1);
  const std::vector<float> first = {1, 2, 3}, second = {7};
  encoder.begin(picture(first, 1));
  encoder.run_slice(1);
  encoder.cancel();
  encoder.begin(picture(second, 1));
  const SoftRowsHandle rows = encoder.run_slice(1);
  ASSERT_NE(rows, nullptr);
  EXPECT_EQ(rows->host_row(0)[0], 7.0f);
}

TEST(Encoder, refuses_more_patches_than_it_takes) {
  test::FakeEncoder encoder(1, 2);
  const std::vector<float> patches = {1, 2, 3};
  EXPECT_THROW(encoder.begin(picture(patches, 1)), Error);
}

}  // namespace
}  // namespace slip::backend
