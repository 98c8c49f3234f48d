// Prompts with an image on the CPU, from patches to logits, against what transformers computes; and the same
// bits however the prompt is cut around the image.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "checkpoint/vision.h"
#include "reference/golden.h"

namespace slip::backend::cpu {
namespace {

using reference::Row;
using test::Golden;

constexpr int kImage = 7;  // placeholder of the golden cases

/// A golden case on the CPU in floats: its tower and its decoder.
struct Subject {
  explicit Subject(const std::string& name)
      : golden(name), vision(*checkpoint::open_vision(*golden.target)), ids(golden.ids("image_prompt_ids")) {
    CpuOptions options;
    options.threads = 2;
    options.activations = ActivationMode::kFloat;
    options.kv_storage = kv::Storage::kF32;
    backend = load(golden.target->config, golden.target->weights, options);
    begin = std::find(ids.begin(), ids.end(), kImage) - ids.begin();
    end = begin + std::count(ids.begin(), ids.end(), kImage);
    soft = encode();
  }

  SoftRowsHandle encode() {
    const auto encoder = backend->load_vision(vision.config, vision.weights);
    std::vector<float> patches;
    for (const Row& patch : golden.rows("image_pixel_values")) {
      patches.insert(patches.end(), patch.begin(), patch.end());
    }
    const std::vector<int> where = golden.ids("image_position_ids");
    const std::vector<int32_t> positions(where.begin(), where.end());
    EncoderInput input{.patches = patches,
                       .positions = positions,
                       .patch_floats = vision.config.patch_values(),
                       .soft_rows = static_cast<int>(end - begin)};
    input.columns = positions[positions.size() - 2] + 1;
    input.rows = positions.back() + 1;
    encoder->begin(input);
    for (;;) {
      if (auto rows = encoder->run_slice(1)) return rows;
    }
  }

  backend::Row row(std::ptrdiff_t at, bool spans) const {
    backend::Row row{.token = ids[static_cast<size_t>(at)], .position = static_cast<int>(at)};
    if (at < begin || at >= end) return row;
    row.soft = soft.get();
    row.soft_row = static_cast<int>(at - begin);
    if (spans) row.span_end = static_cast<int>(end);
    return row;
  }

  /// Logits of the prompt, run in steps that end at each of `cuts` and at its end.
  std::vector<Row> logits(const std::vector<std::ptrdiff_t>& cuts, bool spans) {
    const auto cache = backend->new_cache();
    const auto size = static_cast<std::ptrdiff_t>(ids.size());
    cache->reserve(size);
    kv::Cache* caches[] = {cache.get()};
    std::vector<Row> all;
    std::ptrdiff_t at = 0;
    const auto step = [&](std::ptrdiff_t to) {
      std::vector<backend::Row> rows;
      for (; at < to; ++at) rows.push_back(row(at, spans));
      cache->stage(static_cast<int>(rows.size()));
      const Output out = backend->run({rows, caches});
      for (int i = 0; i < out.rows; ++i) {
        const float* logits = out.logits + std::ptrdiff_t{i} * golden.vocab();
        all.emplace_back(logits, logits + golden.vocab());
      }
      cache->commit(static_cast<int>(rows.size()));
    };
    for (const std::ptrdiff_t cut : cuts) step(cut);
    step(size);
    return all;
  }

  double error(const std::vector<Row>& got) const {
    const std::vector<Row> want = golden.rows("image_logits");
    if (got.size() != want.size()) return INFINITY;
    double difference = 0, size = 0;
    for (size_t r = 0; r < want.size(); ++r) {
      for (size_t i = 0; i < want[r].size(); ++i) {
        difference += std::pow(static_cast<double>(got[r].at(i)) - want[r][i], 2);
        size += std::pow(want[r][i], 2);
      }
    }
    const double relative = std::sqrt(difference / size);
    return std::isnan(relative) ? INFINITY : relative;
  }

  Golden golden;
  checkpoint::Vision vision;
  std::vector<int> ids;
  std::ptrdiff_t begin = 0, end = 0;  // of the image
  std::unique_ptr<Backend> backend;
  SoftRowsHandle soft;
};

TEST(SoftRowsOnCpu, a_prompt_with_an_image_gives_the_logits_of_transformers_in_every_golden_case) {
  for (const std::string& name : test::kGoldenCases) {
    Subject subject(name);
    const bool spans = subject.golden.target->config.bidirectional_media;
    EXPECT_LT(subject.error(subject.logits({}, spans)), 1e-3) << name;
    EXPECT_GT(subject.error(subject.logits({}, !spans)), 3e-3) << name;
  }
}

TEST(SoftRowsOnCpu, where_a_prompt_is_cut_around_an_image_changes_no_bit) {
  for (const std::string& name : test::kGoldenCases) {
    Subject subject(name);
    const bool spans = subject.golden.target->config.bidirectional_media;
    const auto whole = subject.logits({}, spans);
    const auto begin = subject.begin, end = subject.end;
    EXPECT_EQ(subject.logits({begin}, spans), whole) << name;
    EXPECT_EQ(subject.logits({end}, spans), whole) << name;
    EXPECT_EQ(subject.logits({1, begin - 1, begin, end, end + 2}, spans), whole) << name;
    if (!spans) {
      EXPECT_EQ(subject.logits({begin + 5, end - 1}, spans), whole) << name;
    }
  }
}

}  // namespace
}  // namespace slip::backend::cpu
