// pull, list, show and rm against a hub of the tests' own, as a person types them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "hub/fake_hub.h"
#include "support/program.h"

namespace slip::cli {
namespace {

using test::Result;
using test::TemporaryFolder;

class Pull : public testing::Test {
 protected:
  static constexpr const char* kName = "google/gemma-4-test-it";
  void SetUp() override {
    const std::string model = folder_.path("model");
    ASSERT_EQ(test::run({"synth", "--shape", "tiny-e2b", "--assistant", model}).code, 0);
    hub_.add_folder(kName, model);
    hub_.add_folder(std::string(kName) + "-assistant", model + "-assistant");
    setenv("HF_ENDPOINT", hub_.url().c_str(), 1);
    setenv("HF_HUB_CACHE", folder_.path("cache").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HF_ENDPOINT");
    unsetenv("HF_HUB_CACHE");
  }
  TemporaryFolder folder_;
  test::FakeHub hub_{{}};
};

TEST_F(Pull, a_name_becomes_an_answer) {
  EXPECT_EQ(test::run({"list"}).out.find("no model is in the cache"), 0u);
  const Result refused = test::run({"generate", "-m", kName, "-p", "hi"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("slipstream pull google/gemma-4-test-it"), std::string::npos) << refused.err;

  const Result pulled = test::run({"pull", kName});
  ASSERT_EQ(pulled.code, 0) << pulled.err;
  EXPECT_NE(pulled.err.find("model.safetensors"), std::string::npos) << pulled.err;
  EXPECT_NE(pulled.err.find("it fits"), std::string::npos) << pulled.err;
  const Result answer = test::run({"generate", "-m", kName, "-p", "hi", "-n", "4", "-t", "1"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.err.find("found for the model"), std::string::npos) << answer.err;
}

TEST_F(Pull, a_plan_fetches_nothing_and_a_second_pull_neither) {
  const Result plan = test::run({"pull", kName, "--dry-run", "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const auto json = nlohmann::json::parse(plan.out);
  EXPECT_EQ(json["there"], 0);
  EXPECT_EQ(json["model"]["repository"], kName);
  EXPECT_TRUE(json.contains("drafter"));
  ASSERT_EQ(test::run({"pull", kName, "--no-drafter"}).code, 0);
  const Result again = test::run({"pull", kName, "--no-drafter"});
  EXPECT_NE(again.err.find("everything is there"), std::string::npos) << again.out << again.err;
}

TEST_F(Pull, what_is_there_is_listed_shown_and_removed) {
  ASSERT_EQ(test::run({"pull", kName}).code, 0);
  const auto list = nlohmann::json::parse(test::run({"list", "--json"}).out);
  EXPECT_EQ(list.size(), 2u);
  EXPECT_NE(test::run({"show", kName}).out.find("config.json"), std::string::npos);
  EXPECT_EQ(test::run({"rm", kName}).code, 1) << "without a terminal nobody can be asked";
  EXPECT_EQ(test::run({"rm", kName, "--yes"}).code, 0);
  EXPECT_EQ(nlohmann::json::parse(test::run({"list", "--json"}).out).size(), 1u);
  EXPECT_EQ(test::run({"show", kName}).code, 2);
}

TEST_F(Pull, a_name_that_is_wrong_gets_a_sentence) {
  const Result wrong = test::run({"pull", "google/gemma-4-nope"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(std::count(wrong.err.begin(), wrong.err.end(), '\n'), 1) << wrong.err;
  EXPECT_EQ(test::run({"pull", "a/b/c/d"}).code, 1);
}

}  // namespace
}  // namespace slip::cli
