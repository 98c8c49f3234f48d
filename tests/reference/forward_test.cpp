#include "reference/forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "reference/golden.h"
#include "synth/synthetic.h"

namespace slip::reference {
namespace {

TEST(Reference, writes_varied_finite_text_with_synthetic_weights_of_every_kind) {
  for (const char* shape : {"tiny-e2b", "tiny-dense", "tiny-moe", "tiny-unified"}) {
    for (const int bits : {3, 4, 5, 6, 8, 16}) {
      synth::SynthOptions options;
      options.shape = shape;
      options.bits = bits;
      const auto checkpoint = synth::synthesize(options);
      const model::Program program = model::build_program(checkpoint->config, checkpoint->weights);
      Forward forward(program);
      Sequence sequence;
      std::set<int> seen;
      int token = 2;
      for (int i = 0; i < 40; ++i) {
        const Result result = forward.step(sequence, token);
        ASSERT_TRUE(std::all_of(result.logits.begin(), result.logits.end(),
                                [](float x) { return std::isfinite(x); }));
        token = static_cast<int>(std::max_element(result.logits.begin(), result.logits.end()) -
                                 result.logits.begin());
        seen.insert(token);
      }
      EXPECT_GE(seen.size(), 4u) << shape << " at " << bits << " bits";
    }
  }
}

TEST(Reference, writes_the_greedy_text_of_every_golden_case) {
  for (const std::string& name : test::kGoldenCases) {
    const test::Golden golden(name);
    const model::Program program = model::build_program(golden.target->config, golden.target->weights);
    Forward forward(program);
    Sequence sequence;
    Row logits;
    for (const int token : golden.prompt()) logits = forward.step(sequence, token).logits;
    // That of e2b has the id of an image in it, which embeds as padding.
    std::vector<int> text;
    const auto want = golden.tokens("greedy_tokens");
    while (text.size() < want.size()) {
      text.push_back(test::argmax(logits));
      logits = forward.step(sequence, text.back()).logits;
    }
    EXPECT_EQ(text, want) << name;
  }
}

}  // namespace
}  // namespace slip::reference
