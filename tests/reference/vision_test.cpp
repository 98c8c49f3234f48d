// The vision towers and spans of soft rows against what transformers computes with the same weights.
#include "reference/vision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/vision.h"
#include "reference/golden.h"

namespace slip::reference {
namespace {

using test::Golden;
using test::largest_error;

// Both sides compute in float32: the text cases agree as closely.
constexpr double kBound = 1e-3;

double relative_error(const std::vector<Row>& got, const std::vector<Row>& want) {
  if (got.size() != want.size()) return INFINITY;
  double difference = 0, size = 0;
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

/// A golden case with its tower and the pixels of its image.
struct Sight {
  explicit Sight(const std::string& name) : golden(name), vision(*checkpoint::open_vision(*golden.target)) {
    for (const Row& patch : golden.rows("image_pixel_values")) {
      pixels.insert(pixels.end(), patch.begin(), patch.end());
    }
    const std::vector<int> positions = golden.ids("image_position_ids");
    for (size_t i = 0; i < positions.size(); i += 2) {
      image.columns = std::max(image.columns, positions[i] + 1);
      image.rows = std::max(image.rows, positions[i + 1] + 1);
    }
    image.values = pixels;
  }

  std::vector<Row> encode() const {
    const model::VisionProgram program = build_vision_program(vision.config, vision.weights);
    return Vision(program).encode(image);
  }
  double feature_error() const { return relative_error(encode(), golden.rows("image_features")); }

  Golden golden;
  checkpoint::Vision vision;
  std::vector<float> pixels;
  model::ImagePatches image;
};

/// The logits of a prompt whose soft rows stand in the places of `placeholder`; every run of them is a block.
std::vector<Row> run_prompt(const model::Program& program, const std::vector<int>& ids, int placeholder,
                            const std::vector<Row>& soft) {
  Forward forward(program);
  Sequence sequence;
  std::vector<Row> logits;
  size_t next = 0;
  for (size_t i = 0; i < ids.size();) {
    if (ids[i] != placeholder) {
      logits.push_back(forward.step(sequence, ids[i++]).logits);
      continue;
    }
    std::vector<Row> block;
    for (; i < ids.size() && ids[i] == placeholder; ++i) block.push_back(soft.at(next++));
    for (Result& result : forward.step_block(sequence, block)) logits.push_back(std::move(result.logits));
  }
  EXPECT_EQ(next, soft.size());
  return logits;
}

constexpr int kImage = 7;

double logits_error(const Sight& sight, const model::Config& config) {
  const model::Program program = model::build_program(config, sight.golden.target->weights);
  return relative_error(run_prompt(program, sight.golden.ids("image_prompt_ids"), kImage, sight.encode()),
                        sight.golden.rows("image_logits"));
}

TEST(ReferenceVision, sees_the_soft_rows_that_transformers_sees_in_every_golden_case) {
  for (const std::string& name : test::kGoldenCases) {
    const Sight sight(name);
    const double error = sight.feature_error();
    EXPECT_LT(error, kBound) << name;
    RecordProperty(name, std::to_string(error));
  }
}

TEST(ReferenceVision, patches_stand_row_by_row_in_every_golden_case) {
  for (const std::string& name : test::kGoldenCases) {
    const Sight sight(name);
    const std::vector<int> positions = sight.golden.ids("image_position_ids");
    ASSERT_EQ(positions.size(), 2u * static_cast<size_t>(sight.image.count())) << name;
    for (int i = 0; i < sight.image.count(); ++i) {
      EXPECT_EQ(positions[static_cast<size_t>(2 * i)], i % sight.image.columns) << name;
      EXPECT_EQ(positions[static_cast<size_t>(2 * i + 1)], i / sight.image.columns) << name;
    }
  }
}

TEST(ReferenceVision, a_prompt_with_an_image_gives_the_logits_of_transformers_in_every_golden_case) {
  for (const std::string& name : test::kGoldenCases) {
    const Sight sight(name);
    const double error = logits_error(sight, sight.golden.target->config);
    EXPECT_LT(error, kBound) << name;
    RecordProperty(name, std::to_string(error));
  }
}

// The golden comparison can only be trusted if it notices what ports of these networks got wrong.

TEST(ReferenceVision, the_golden_comparison_notices_every_part_of_a_tower) {
  for (const char* name : {"e2b", "dense", "moe"}) {
    SCOPED_TRACE(name);
    const auto error_after = [&](const std::function<void(Sight&)>& change) {
      Sight sight(name);
      change(sight);
      return sight.feature_error();
    };
    EXPECT_LT(error_after([](Sight&) {}), kBound);
    EXPECT_GT(error_after([](Sight& s) { std::swap(s.image.rows, s.image.columns); }), kBound)
        << "columns and rows exchanged";
    EXPECT_GT(error_after([](Sight& s) { s.vision.config.rope_theta = 1e4; }), kBound) << "another rope";
    EXPECT_GT(error_after([](Sight& s) { s.vision.config.norm_epsilon = 1e-2f; }), kBound) << "epsilon";
    EXPECT_GT(error_after([](Sight& s) {
                for (auto& layer : s.vision.weights.layers)
                  layer.q_norm.swap(layer.k_norm), layer.q_norm[0] += 1;
              }),
              kBound)
        << "a head norm";
    for (const auto norm :
         {&model::VisionLayerWeights::input_norm, &model::VisionLayerWeights::post_attention_norm,
          &model::VisionLayerWeights::pre_mlp_norm, &model::VisionLayerWeights::post_mlp_norm}) {
      EXPECT_GT(error_after([&](Sight& s) {
                  for (float& weight : s.vision.weights.layers[1].*norm) weight += 1;  // as in Gemma 3
                }),
                kBound)
          << "1 + weight in a norm";
    }
    EXPECT_GT(error_after([](Sight& s) {
                for (float& v : s.pixels) v = v / 2 + 0.5f;  // 2 (v - 0.5) becomes v
                s.image.values = s.pixels;
              }),
              kBound)
        << "pixels from 0 to 1";
  }
  Sight plain("dense");
  plain.vision.config.standardise = false;
  EXPECT_GT(plain.feature_error(), kBound) << "not standardised";
}

TEST(ReferenceVision, the_golden_comparison_notices_every_part_of_the_unified_embedder) {
  const auto error_after = [&](const std::function<void(model::VisionWeights&)>& change) {
    Sight sight("unified");
    change(sight.vision.weights);
    return sight.feature_error();
  };
  EXPECT_LT(error_after([](auto&) {}), kBound);
  EXPECT_GT(error_after([](auto& w) { w.tile_norm.weight.assign(w.tile_norm.weight.size(), 1); }), kBound);
  EXPECT_GT(error_after([](auto& w) { w.patch_bias.assign(w.patch_bias.size(), 0); }), kBound);
  EXPECT_GT(error_after([](auto& w) { w.patch_norm.bias.assign(w.patch_norm.bias.size(), 0); }), kBound);
  EXPECT_GT(error_after([](auto& w) { w.position_norm.weight.assign(w.position_norm.weight.size(), 1); }),
            kBound);
  Sight sight("unified");
  sight.vision.config.positions *= 2;  // no row is moved: positions come first, then axes
  EXPECT_LT(sight.feature_error(), kBound);
  // A square picture: turning the grid over its diagonal changes nothing but who stands where.
  std::vector<float> turned = sight.pixels;
  const auto width = static_cast<size_t>(sight.vision.config.patch_values());
  const auto side = static_cast<size_t>(sight.image.columns);
  for (size_t y = 0; y < side; ++y) {
    for (size_t x = 0; x < side; ++x) {
      std::copy_n(&sight.pixels[(y * side + x) * width], width, &turned[(x * side + y) * width]);
    }
  }
  sight.image.values = turned;
  EXPECT_GT(sight.feature_error(), kBound) << "columns and rows exchanged";
}

TEST(ReferenceVision, the_golden_comparison_notices_spans_where_none_belong) {
  for (const std::string& name : test::kGoldenCases) {
    const Sight sight(name);
    model::Config config = sight.golden.target->config;
    EXPECT_EQ(config.bidirectional_media, name != "e2b");
    config.bidirectional_media = !config.bidirectional_media;
    EXPECT_GT(logits_error(sight, config), 3 * kBound) << name;
    config = sight.golden.target->config;
    if (name == "e2b") continue;
    for (auto& layer : config.layers) layer.kind = model::LayerKind::kSliding;  // full layers too
    config.window = 1 << 20;
    EXPECT_GT(logits_error(sight, config), 3 * kBound) << name;
  }
}

// Clipped products: the golden cases have infinite bounds, so what they do is compared by hand.

TEST(ReferenceVision, a_clipped_product_clamps_what_it_reads_and_what_it_writes) {
  Sight sight("e2b");
  std::vector<Row> plain, clipped;
  const auto activated_of = [&](std::vector<Row>& to) {
    const model::VisionProgram program = build_vision_program(sight.vision.config, sight.vision.weights);
    Vision vision(program);
    vision.observe = [&](const model::VisionPhase& phase, const std::vector<Row>& rows) {
      if (phase.kind == model::VisionPhaseKind::kGateUp && phase.layer == 0) to = rows;
    };
    vision.encode(sight.image);
  };
  activated_of(plain);
  auto& layer = sight.vision.weights.layers[0];
  layer.up.output_min = -0.25f;
  layer.up.output_max = 0.5f;
  layer.gate.output_min = layer.gate.output_max = 3;  // gelu(3) everywhere
  activated_of(clipped);
  float lowest = INFINITY, highest = -INFINITY;
  for (const Row& row : clipped) {
    for (const float x : row) lowest = std::min(lowest, x), highest = std::max(highest, x);
  }
  EXPECT_NEAR(lowest, -0.25f * gelu_tanh(3), 1e-6);
  EXPECT_NEAR(highest, 0.5f * gelu_tanh(3), 1e-6);
  EXPECT_NE(plain, clipped);

  layer.up.output_max = INFINITY;
  layer.up.output_min = -INFINITY;
  layer.up.input_min = layer.up.input_max = 0;  // nothing goes in, so nothing comes out
  activated_of(clipped);
  for (const Row& row : clipped) {
    for (const float x : row) EXPECT_EQ(x, 0);
  }
}

}  // namespace
}  // namespace slip::reference
