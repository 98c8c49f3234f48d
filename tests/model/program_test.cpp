#include "model/program.h"

#include <gtest/gtest.h>

#include "synth/synthetic.h"

namespace slip::model {
namespace {

Program program_of(const char* shape, int bits, std::unique_ptr<checkpoint::Checkpoint>& keep) {
  synth::SynthOptions options;
  options.shape = shape;
  options.bits = bits;
  keep = synth::synthesize(options);
  return build_program(keep->config, keep->weights);
}

TEST(Program, reads_the_bytes_per_token_of_the_published_models) {
  // Parameters read per token (G) from the architecture, times the bytes of bf16 or of 4 bits with a scale
  // and a bias per 64.
  std::unique_ptr<checkpoint::Checkpoint> keep;
  EXPECT_NEAR(static_cast<double>(program_of("e2b", 16, keep).streamed_bytes()) / 2e9, 2.279, 0.003);
  EXPECT_NEAR(static_cast<double>(program_of("26b-a4b", 16, keep).streamed_bytes()) / 2e9, 3.822, 0.003);
  EXPECT_NEAR(static_cast<double>(program_of("31b", 16, keep).streamed_bytes()) / 2e9, 30.696, 0.01);
  EXPECT_NEAR(static_cast<double>(program_of("e2b", 4, keep).streamed_bytes()) / 1e9, 2.279 * 4.5 / 8, 0.003);
}

TEST(Program, lets_rows_without_output_leave_after_the_last_layer_that_stores_kv) {
  std::unique_ptr<checkpoint::Checkpoint> keep;
  const Program program = program_of("e2b", 4, keep);
  int keeps = 0;
  for (size_t i = 0; i < program.phases.size(); ++i) {
    if (program.phases[i].kind != PhaseKind::kKeepOutputs) continue;
    ++keeps;
    EXPECT_EQ(program.phases[i].layer, 14);
    EXPECT_EQ(program.phases[i - 1].kind, PhaseKind::kQkv);
  }
  EXPECT_EQ(keeps, 1);
}

TEST(Program, begins_with_the_embedding_and_ends_with_the_head) {
  std::unique_ptr<checkpoint::Checkpoint> keep;
  const Program program = program_of("tiny-moe", 8, keep);
  EXPECT_EQ(program.phases.front().kind, PhaseKind::kEmbed);
  EXPECT_EQ(program.phases.back().kind, PhaseKind::kHead);
  EXPECT_EQ(program.phases.back().output, Field::kLogits);
}

}  // namespace
}  // namespace slip::model
