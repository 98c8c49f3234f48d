// The vision towers on the CPU against the reference, phase by phase, and against themselves: the soft rows
// of an image must not depend on slices, threads, or the images before it.
#include "backend/cpu/vision_encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backend/cpu/dot_rows.h"
#include "base/error.h"
#include "checkpoint/vision.h"
#include "reference/golden.h"
#include "reference/vision.h"
#include "support/memory_tensor.h"
#include "support/simd_targets.h"
#include "synth/synthetic_vision.h"

namespace slip::backend::cpu {
namespace {

using model::VisionPhase;
using reference::Row;

// Floats on both sides, and rows rounded to bf16: the bounds of the text cases.
constexpr double kFloatBound = 1e-3;
constexpr double kRoundedBound = 1.5e-2;

/// Random pixels on a grid, owned.
struct Picture {
  Picture(const model::VisionConfig& config, int grid_columns, int grid_rows, uint64_t seed = 1)
      : columns(grid_columns), rows(grid_rows), patch_values(config.patch_values()) {
    const int patches = columns * rows;
    soft_rows = patches / config.patches_per_soft_row();
    for (int i = 0; i < patches * patch_values; ++i) {
      values.push_back(static_cast<float>(keyed_bits(seed, static_cast<uint64_t>(i)) % 256) / 255);
    }
    place();
  }
  Picture(const std::vector<Row>& patches, std::vector<int> where, int soft)
      : soft_rows(soft), patch_values(static_cast<int>(patches.front().size())) {
    for (const Row& patch : patches) values.insert(values.end(), patch.begin(), patch.end());
    for (size_t i = 0; i < where.size(); i += 2) {
      columns = std::max(columns, where[i] + 1);
      rows = std::max(rows, where[i + 1] + 1);
    }
    place();
  }
  void place() {
    for (int i = 0; i < columns * rows; ++i) {
      positions.push_back(i % columns);
      positions.push_back(i / columns);
    }
  }
  EncoderInput input() const {
    return {.patches = values,
            .positions = positions,
            .patch_floats = patch_values,
            .columns = columns,
            .rows = rows,
            .soft_rows = soft_rows};
  }
  model::ImagePatches image() const { return {.rows = rows, .columns = columns, .values = values}; }

  int columns = 0, rows = 0, soft_rows = 0, patch_values = 0;
  std::vector<float> values;
  std::vector<int32_t> positions;
};

CpuOptions options_of(ActivationMode mode) {
  CpuOptions options;
  options.activations = mode;
  return options;
}

std::vector<Row> rows_of(const SoftRows& soft, int width) {
  std::vector<Row> rows;
  for (int i = 0; i < soft.rows(); ++i) rows.emplace_back(soft.host_row(i), soft.host_row(i) + width);
  return rows;
}

std::vector<Row> encode(Encoder& encoder, const Picture& picture, int width, double slice = 1e9) {
  encoder.begin(picture.input());
  for (;;) {
    if (const SoftRowsHandle soft = encoder.run_slice(slice)) return rows_of(*soft, width);
  }
}

double relative_error(const std::vector<Row>& got, const std::vector<Row>& want) {
  if (got.size() != want.size()) return INFINITY;
  double difference = 0, size = 1e-30;
  for (size_t r = 0; r < got.size(); ++r) {
    if (got[r].size() != want[r].size()) return INFINITY;
    for (size_t i = 0; i < got[r].size(); ++i) {
      difference += std::pow(static_cast<double>(got[r][i]) - want[r][i], 2);
      size += std::pow(want[r][i], 2);
    }
  }
  const double error = std::sqrt(difference / size);
  return std::isnan(error) ? INFINITY : error;
}

const char* const kShapes[] = {"tiny-e2b", "tiny-dense", "tiny-unified"};

std::vector<std::vector<Row>> observed(ObservableEncoder& encoder, const Picture& picture) {
  const auto& phases = encoder.program().phases;
  std::vector<std::vector<Row>> fields(phases.size());
  encoder.observe = [&](const ObservableEncoder::Block& block) {
    std::vector<Row>& rows = fields[static_cast<size_t>(&block.phase - phases.data())];
    rows.resize(std::max(rows.size(), static_cast<size_t>(block.first + block.rows)));
    for (int i = 0; i < block.rows; ++i) {
      const float* row = block.data + i * block.stride;
      rows[static_cast<size_t>(block.first + i)].assign(row, row + block.cols);
    }
  };
  encode(encoder, picture, encoder.program().config.text_hidden);
  encoder.observe = nullptr;
  return fields;
}

void compare_with_reference(const synth::SyntheticVision& vision, const Picture& picture,
                            ActivationMode mode) {
  ThreadPool pool(2);
  const auto encoder = load_vision(pool, options_of(mode), vision.config, vision.weights);
  const auto got = observed(*encoder, picture);
  const model::VisionProgram program = build_vision_program(vision.config, vision.weights);
  reference::Vision reference(program);
  size_t at = 0;
  const double bound = encoder->narrow() ? kRoundedBound : 2e-5;
  reference.observe = [&](const VisionPhase& phase, const std::vector<Row>& want) {
    EXPECT_LT(relative_error(got[at], want), bound) << name_of(phase.kind) << " of layer " << phase.layer;
    ++at;
  };
  reference.encode(picture.image());
  EXPECT_EQ(at, got.size());
}

TEST(CpuVision, every_phase_of_every_tower_agrees_with_the_reference) {
  for (const char* shape : kShapes) {
    SCOPED_TRACE(shape);
    const auto vision = synth::synthesize_vision(shape);
    // Neither counts of patches nor of keys are round, and 351 patches are more than one tile of keys.
    for (const auto& [columns, rows] : {std::pair(39, 9), std::pair(3, 3), std::pair(6, 15)}) {
      SCOPED_TRACE(columns);
      const Picture picture(vision->config, columns, rows);
      compare_with_reference(*vision, picture, ActivationMode::kFloat);
      compare_with_reference(*vision, picture, ActivationMode::kInt8);
    }
  }
}

TEST(CpuVision, every_instruction_set_agrees_with_the_reference) {
  const auto vision = synth::synthesize_vision("tiny-dense");
  const Picture picture(vision->config, 9, 6);
  test::for_each_simd_target([&] {
    compare_with_reference(*vision, picture, ActivationMode::kFloat);
    compare_with_reference(*vision, picture, ActivationMode::kInt8);
  });
}

TEST(CpuVision, sees_what_transformers_sees_in_every_golden_case) {
  for (const std::string& name : test::kGoldenCases) {
    const test::Golden golden(name);
    const auto vision = checkpoint::open_vision(*golden.target);
    const Picture picture(golden.rows("image_pixel_values"), golden.ids("image_position_ids"),
                          golden.facts.at("image_soft_tokens").get<int>());
    ThreadPool pool(2);
    for (const auto mode : {ActivationMode::kFloat, ActivationMode::kInt8}) {
      const auto encoder = load_vision(pool, options_of(mode), vision->config, vision->weights);
      const double error = relative_error(encode(*encoder, picture, vision->config.text_hidden),
                                          golden.rows("image_features"));
      EXPECT_LT(error, encoder->narrow() ? kRoundedBound : kFloatBound) << name;
      RecordProperty(name + (encoder->narrow() ? "_rounded" : "_float"), std::to_string(error));
    }
  }
}

TEST(CpuVision, an_image_gives_the_same_bits_in_slices_of_any_length_and_on_any_number_of_threads) {
  for (const char* shape : kShapes) {
    const auto vision = synth::synthesize_vision(shape);
    const Picture picture(vision->config, 18, 21);
    for (const auto mode : {ActivationMode::kFloat, ActivationMode::kInt8}) {
      std::vector<Row> first;
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        const auto encoder = load_vision(pool, options_of(mode), vision->config, vision->weights);
        for (const double slice : {0.0, 1e-4, 1.0}) {
          const auto soft = encode(*encoder, picture, vision->config.text_hidden, slice);
          if (first.empty()) first = soft;
          EXPECT_EQ(soft, first) << shape << ", " << threads << " threads, slices of " << slice;
        }
      }
    }
  }
}

TEST(CpuVision, an_image_gives_the_same_bits_alone_and_among_31_others) {
  for (const char* shape : kShapes) {
    const auto vision = synth::synthesize_vision(shape);
    const Picture picture(vision->config, 9, 15, 77);
    ThreadPool pool(2);
    const auto alone = load_vision(pool, {}, vision->config, vision->weights);
    const auto want = encode(*alone, picture, vision->config.text_hidden);
    const auto shared = load_vision(pool, {}, vision->config, vision->weights);
    for (int i = 0; i < 31; ++i) {
      encode(*shared, Picture(vision->config, 3 * (1 + i % 7), 3 * (1 + i % 5), static_cast<uint64_t>(i)),
             vision->config.text_hidden);
      if (i % 10 != 5) continue;
      EXPECT_EQ(encode(*shared, picture, vision->config.text_hidden), want) << shape << " after " << i;
    }
    // One that was dropped half way leaves nothing behind either.
    shared->begin(Picture(vision->config, 39, 27).input());
    shared->run_slice(0);
    shared->cancel();
    EXPECT_EQ(encode(*shared, picture, vision->config.text_hidden), want) << shape;
  }
}

TEST(CpuVision, infinities_in_one_image_do_not_reach_the_next) {
  const auto vision = synth::synthesize_vision("tiny-dense");
  const Picture picture(vision->config, 9, 3);
  ThreadPool pool(1);
  for (const auto mode : {ActivationMode::kFloat, ActivationMode::kInt8}) {
    const auto encoder = load_vision(pool, options_of(mode), vision->config, vision->weights);
    const auto want = encode(*encoder, picture, vision->config.text_hidden);
    Picture broken(vision->config, 12, 9);
    broken.values.assign(broken.values.size(), INFINITY);
    encode(*encoder, broken, vision->config.text_hidden);
    EXPECT_EQ(encode(*encoder, picture, vision->config.text_hidden), want);
  }
}

TEST(CpuVision, short_slices_do_a_small_part_of_the_work) {
  const auto vision = synth::synthesize_vision("tiny-dense");
  const Picture picture(vision->config, 36, 36);
  ThreadPool pool(2);
  const auto encoder = load_vision(pool, {}, vision->config, vision->weights);
  encoder->begin(picture.input());
  int slices = 1, most = 0, rows = 0;
  encoder->observe = [&](const ObservableEncoder::Block& block) { rows += block.rows; };
  while (!encoder->run_slice(0)) {
    most = std::max(most, rows);
    rows = 0;
    ++slices;
  }
  // Eight rows of each thread through the phases of one stage.
  EXPECT_LE(most, 2 * 8 * 2);
  EXPECT_GE(slices, 36 * 36 / 16 * 7);
}

TEST(CpuVision, a_quantised_projection_is_read_as_it_is) {
  auto vision = synth::synthesize_vision("tiny-dense");
  // The affine codes need columns that divide by the group: 100 do not, so the tower is made wider here.
  const test::OwnedMatrix affine =
      test::random_affine_matrix(8, 32, tensor::DType::kBf16, vision->config.text_hidden, 128, 5);
  model::VisionConfig config;
  config.kind = model::VisionKind::kUnified;
  config.hidden = 128;
  config.text_hidden = vision->config.text_hidden;
  config.patch_side = 2;
  config.positions = 16;
  const test::OwnedMatrix patch =
      test::random_float_matrix(tensor::DType::kBf16, 128, config.patch_values(), 6);
  const test::OwnedMatrix positions = test::random_float_matrix(tensor::DType::kF32, 32, 128, 7);
  const auto norm = [](int size) {
    return model::LayerNormWeights{model::Vector(static_cast<size_t>(size), 1.5f),
                                   model::Vector(static_cast<size_t>(size), 0.25f)};
  };
  model::VisionWeights weights;
  weights.patch = patch.matrix;
  weights.positions = positions.matrix;
  weights.projection = affine.matrix;
  weights.tile_norm = norm(config.patch_values());
  weights.patch_norm = weights.position_norm = norm(128);
  weights.patch_bias.assign(128, 0.5f);
  const model::VisionProgram program = build_vision_program(config, weights);
  const Picture picture(config, 7, 5);
  ThreadPool pool(2);
  const auto encoder = load_vision(pool, options_of(ActivationMode::kFloat), config, weights);
  EXPECT_LT(relative_error(encode(*encoder, picture, config.text_hidden),
                           reference::Vision(program).encode(picture.image())),
            2e-5);
}

TEST(CpuVision, an_image_that_does_not_fit_is_refused) {
  const auto vision = synth::synthesize_vision("tiny-e2b");  // 40 positions
  ThreadPool pool(1);
  const auto encoder = load_vision(pool, {}, vision->config, vision->weights);
  const auto expect_refused = [&](const EncoderInput& input) {
    try {
      encoder->begin(input);
      ADD_FAILURE() << input.columns << " x " << input.rows;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    }
  };
  const Picture good(vision->config, 6, 9);
  for (const auto& [columns, rows] : {std::pair(0, 9), std::pair(6, -9), std::pair(5, 9), std::pair(9, 4),
                                      std::pair(42, 3), std::pair(3, 42), std::pair(1 << 30, 1 << 30)}) {
    EncoderInput input = good.input();
    input.columns = columns;
    input.rows = rows;
    expect_refused(input);
  }
  EncoderInput input = good.input();
  input.patches = input.patches.first(input.patches.size() - 1);
  expect_refused(input);
  input = good.input();
  input.soft_rows = 7;
  expect_refused(input);
  input = good.input();
  input.patch_floats = 12;
  expect_refused(input);
  Picture turned = good;
  std::swap(turned.positions[0], turned.positions[2]);
  expect_refused(turned.input());
  input = good.input();
  input.positions = input.positions.first(2);
  expect_refused(input);
  const auto want = encode(*encoder, good, vision->config.text_hidden);
  EXPECT_EQ(want.size(), 6u);
  Picture unplaced = good;  // patches come in reading order anyway
  unplaced.positions.clear();
  EXPECT_EQ(encode(*encoder, unplaced, vision->config.text_hidden), want);
}

}  // namespace
}  // namespace slip::backend::cpu
