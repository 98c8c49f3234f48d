#include "checkpoint/requantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/tiny_drafters.h"

namespace slip::checkpoint {
namespace {

using tensor::Encoding;
using tensor::Matrix;
using test::TempFolder;
using test::tiny_target;
using test::TinyAssistant;
using test::TinyDflash;

std::vector<float> values_of(const Matrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
  tensor::RowReader reader(matrix);
  for (int64_t r = 0; r < matrix.rows; ++r) reader.floats(r, &values[static_cast<size_t>(r * matrix.cols)]);
  return values;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

TEST(Requantise, KeepsEveryValueOfAnAssistantWithinHalfAStep) {
  for (const int bits : {4, 8}) {
    const TempFolder folder;
    const TinyAssistant tiny{.ordered = true};
    test::write_folder(folder, tiny.config(), tiny.tensors());
    const auto before = open_assistant(folder.path(), tiny_target());
    const auto after = open_assistant(folder.path(), tiny_target());
    requantise(*after, bits);
    EXPECT_EQ(after->format,
              "Hugging Face bf16, quantised to " + std::to_string(bits) + " bits while loading");
    const auto check = [&](const Matrix& was, const Matrix& is) {
      ASSERT_EQ(is.encoding, Encoding::kAffine) << is.name;
      EXPECT_EQ(is.name, was.name);
      EXPECT_EQ(is.bits, bits);
      EXPECT_EQ(is.group, 64);
      EXPECT_EQ(is.rows, was.rows);
      EXPECT_EQ(is.cols, was.cols);
      EXPECT_EQ(is.order, nullptr);
      // Values are within -0.5 .. 0.5: half a step, and what rounding scale and bias to bf16 adds.
      const float step = 1.0f / static_cast<float>((1 << bits) - 1);
      const float difference = largest_difference(values_of(was), values_of(is));
      EXPECT_LT(difference, 0.5f * step + 0.006f) << is.name;
      EXPECT_GT(difference, 0.0f) << is.name;
    };
    check(before->weights.text.embed, after->weights.text.embed);
    check(before->weights.pre_projection, after->weights.pre_projection);
    check(before->weights.post_projection, after->weights.post_projection);
    check(before->weights.centroids, after->weights.centroids);
    for (size_t i = 0; i < 3; ++i) {
      const auto& was = before->weights.text.layers[i];
      const auto& is = after->weights.text.layers[i];
      check(was.q, is.q);
      check(was.o, is.o);
      check(was.gate, is.gate);
      check(was.up, is.up);
      check(was.down, is.down);
      EXPECT_FALSE(is.k.present());
    }
  }
}

TEST(Requantise, CoversTheKeysValuesAndContextProjectionOfADflashDrafter) {
  const TempFolder folder;
  test::write_folder(folder, TinyDflash::config(), TinyDflash::tensors());
  const auto drafter = open_dflash(folder.path(), tiny_target());
  requantise(*drafter, 4);
  for (const Matrix* matrix : {&drafter->weights.fc, &drafter->weights.text.layers[0].k,
                               &drafter->weights.text.layers[1].v, &drafter->weights.text.layers[1].down}) {
    EXPECT_EQ(matrix->encoding, Encoding::kAffine) << matrix->name;
    EXPECT_EQ(matrix->bits, 4);
  }
}

TEST(Requantise, ChoosesTheGroupByTheColumnsAndLeavesWhatDoesNotDivide) {
  const TempFolder folder;
  const TinyAssistant tiny;
  auto config = tiny.config();
  auto tensors = tiny.tensors();
  // 96 columns divide by 32 only, 72 by neither.
  for (const auto& [inner, group] : {std::pair{96, 32}, {72, 0}}) {
    config["text_config"]["intermediate_size"] = inner;
    for (int i = 0; i < 3; ++i) {
      const std::string at = "model.layers." + std::to_string(i) + ".mlp.";
      test::add_tensor(tensors, at + "gate_proj.weight", {inner, 128});
      test::add_tensor(tensors, at + "up_proj.weight", {inner, 128});
      test::add_tensor(tensors, at + "down_proj.weight", {128, inner});
    }
    test::write_folder(folder, config, tensors);
    const auto assistant = open_assistant(folder.path(), tiny_target());
    requantise(*assistant, 8);
    const Matrix& down = assistant->weights.text.layers[1].down;
    EXPECT_EQ(down.encoding, group == 0 ? Encoding::kFloat : Encoding::kAffine);
    EXPECT_EQ(down.group, group);
    EXPECT_EQ(assistant->weights.text.layers[1].gate.group, 64);
  }
}

TEST(Requantise, LeavesWhatIsQuantisedAlready) {
  const TempFolder folder;
  auto tensors = TinyAssistant{}.tensors();
  test::quantise(tensors, "pre_projection", 6, 32);
  test::write_folder(folder, TinyAssistant{}.config(), tensors);
  const auto assistant = open_assistant(folder.path(), tiny_target());
  const tensor::StoredTensor* was = assistant->weights.pre_projection.weight;
  requantise(*assistant, 4);
  EXPECT_EQ(assistant->weights.pre_projection.weight, was);
  EXPECT_EQ(assistant->weights.pre_projection.bits, 6);
  const std::string format = assistant->format;
  requantise(*assistant, 8);  // nothing is left to do
  EXPECT_EQ(assistant->weights.text.embed.bits, 4);
  EXPECT_EQ(assistant->format, format);
}

TEST(Requantise, RefusesOtherWidths) {
  const TempFolder folder;
  test::write_folder(folder, TinyAssistant{}.config(), TinyAssistant{}.tensors());
  const auto assistant = open_assistant(folder.path(), tiny_target());
  for (const int bits : {0, 3, 16}) {
    try {
      requantise(*assistant, bits);
      ADD_FAILURE() << bits;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find("4 or 8 bits"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace slip::checkpoint
