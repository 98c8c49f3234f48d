#include "conformance/golden_case.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/program.h"

namespace slip::conformance {
namespace {

void expect_all_pass(const std::string& folder) {
  const auto checks = verify_case(folder, {.backend = {.device = session::DeviceKind::kCpu, .threads = 2},
                                           .media_worker = {SLIP_PROGRAM, {"--media-worker"}}});
  int passed = 0;
  for (const Check& check : checks) {
    EXPECT_NE(check.result, Check::Result::kFail)
        << check.name << ": " << check.worst << " " << check.measure << ", bound " << check.bound;
    passed += check.result == Check::Result::kPass;
  }
  EXPECT_GE(passed, 2);
}

TEST(GoldenCase, with_per_layer_embeddings_and_shared_kv_passes) {
  expect_all_pass(SLIP_GOLDEN "/e2b");
}
TEST(GoldenCase, with_k_equal_to_v_and_its_mlx_copies_passes) {
  expect_all_pass(SLIP_GOLDEN "/dense");
}
TEST(GoldenCase, with_experts_and_its_mlx_copies_passes) {
  expect_all_pass(SLIP_GOLDEN "/moe");
}
TEST(GoldenCase, of_the_unified_kind_passes) {
  expect_all_pass(SLIP_GOLDEN "/unified");
}
TEST(GoldenCase, of_the_demonstration_model_with_its_drafters_and_its_mlx_copy_passes) {
  expect_all_pass(SLIP_TEST_DATA "/golden/tiny");
}
TEST(GoldenCase, of_the_tokenizer_passes) {
  expect_all_pass(SLIP_TEST_DATA "/golden/tokenizer");
}
TEST(GoldenCase, of_the_chat_template_passes_for_both_kinds_of_models) {
  expect_all_pass(SLIP_TEST_DATA "/golden/chat");
}

TEST(GoldenCase, passes_on_whatever_device_there_is) {
  const test::Result result = test::run({"verify", "--device", "auto", "-t", "2", SLIP_GOLDEN "/dense"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
}

TEST(GoldenCase, that_is_none_is_refused_with_its_name) {
  try {
    verify_case(SLIP_TEST_DATA "/golden", {});
    FAIL() << "a folder without a case was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadFile);
    EXPECT_NE(std::string(error.what()).find("golden"), std::string::npos);
  }
}

}  // namespace
}  // namespace slip::conformance
