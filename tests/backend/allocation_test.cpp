// A decode step must not allocate: this file replaces operator new for its executable and counts.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/vision_encoder.h"
#include "support/count_allocations.h"
#include "synth/synthetic.h"
#include "synth/synthetic_vision.h"

namespace slip::backend::cpu {
namespace {

TEST(Allocation, none_happens_inside_a_step_of_any_architecture) {
  const CpuOptions shipped;
  ASSERT_EQ(shipped.activations, ActivationMode::kInt16);
  for (const char* shape : {"tiny-e2b", "tiny-dense", "tiny-moe", "tiny-unified"}) {
    for (const auto& [bits, mode] : {std::pair{4, shipped.activations},
                                     {16, shipped.activations},
                                     {4, ActivationMode::kInt8},
                                     {4, ActivationMode::kFloat}}) {
      synth::SynthOptions synth;
      synth.shape = shape;
      synth.bits = bits;
      const auto checkpoint = synth::synthesize(synth);
      CpuOptions options;
      options.threads = 2;
      options.activations = mode;
      const auto backend = load(checkpoint->config, checkpoint->weights, options);
      const auto cache = backend->new_cache();
      cache->reserve(600);
      std::vector<Row> rows(5);
      kv::Cache* caches[] = {cache.get()};
      const auto step = [&](size_t width) {
        for (size_t i = 0; i < width; ++i) {
          rows[i].token = static_cast<int>(i) + 3;
          rows[i].position = cache->length() + static_cast<int>(i);
        }
        cache->stage(static_cast<int>(width));
        backend->run({std::span(rows).first(width), caches});
        cache->commit(static_cast<int>(width));
      };
      step(5);
      const long before = test::allocations.load();
      for (int i = 0; i < 200; ++i) step(1 + static_cast<size_t>(i) % 2);
      EXPECT_EQ(test::allocations.load() - before, 0) << shape << " at " << bits << " bits";
    }
  }
}

TEST(Allocation, none_happens_inside_a_draft_step) {
  for (const char* shape : {"tiny-e2b", "tiny-dense"}) {  // a head of centroids, a dense one
    synth::SynthOptions synth;
    synth.shape = shape;
    synth.assistant_bits = 8;
    const auto checkpoint = synth::synthesize(synth);
    const auto made = synth::synthesize_assistant(synth);
    CpuOptions options;
    options.threads = 2;
    const auto backend = load(checkpoint->config, checkpoint->weights, options);
    const auto assistant = backend->load_assistant(made->config, made->weights, {.max_rows = 2});
    const auto cache = backend->new_cache();
    cache->reserve(64);
    const std::vector<Row> rows{{.token = 5, .position = 0}};
    kv::Cache* caches[] = {cache.get()};
    cache->stage(1);
    const Output out = backend->run({rows, caches});
    cache->commit(1);
    const std::vector<float> hidden(out.hidden, out.hidden + checkpoint->config.hidden);
    const std::vector<AssistantRow> drafts(
        2, {.token = 7, .hidden = hidden.data(), .position = 1, .keys = 1, .cache = cache.get()});
    assistant->step(drafts);
    const long before = test::allocations.load();
    for (int i = 0; i < 50; ++i) assistant->step(std::span(drafts).first(1 + static_cast<size_t>(i) % 2));
    EXPECT_EQ(test::allocations.load() - before, 0) << shape;
  }
}

TEST(Allocation, none_happens_inside_a_slice_of_a_vision_tower) {
  for (const char* shape : {"tiny-e2b", "tiny-dense", "tiny-unified"}) {
    const auto vision = synth::synthesize_vision(shape);
    const int side = 12, values = vision->config.patch_values();
    const std::vector<float> patches(static_cast<size_t>(side * side * values), 0.25f);
    std::vector<int32_t> positions;
    for (int i = 0; i < side * side; ++i) {
      positions.push_back(i % side);
      positions.push_back(i / side);
    }
    ThreadPool pool(2);
    const auto encoder = load_vision(pool, {}, vision->config, vision->weights);
    encoder->begin({.patches = patches,
                    .positions = positions,
                    .patch_floats = values,
                    .columns = side,
                    .rows = side,
                    .soft_rows = side * side / vision->config.patches_per_soft_row()});
    SoftRowsHandle soft;
    long allocated = 0;
    while (soft == nullptr) {
      const long before = test::allocations.load();
      soft = encoder->run_slice(0);
      if (soft == nullptr) allocated += test::allocations.load() - before;  // the last one makes the handle
    }
    EXPECT_EQ(allocated, 0) << shape;
  }
}

}  // namespace
}  // namespace slip::backend::cpu
