// pull, list, show and rm against a hub of the tests' own, as a person types them.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "hub/fake_hub.h"
#include "support/program.h"
#include "support/pty.h"

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
  /// Weights drip from here on, so that a download lasts until somebody ends it; their headers, which the plan
  /// reads in a range, do not.
  void slow_down() {
    hub_.set_script([](const test::FakeRequest& request, test::FakeReply& reply) {
      if (!request.storage || !request.header("range").empty()) return;
      reply.drip_after = 100'000;
      reply.on_drip = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    });
  }
  bool wait_for_sent(uint64_t bytes) {
    for (int nap = 0; nap < 6000 && hub_.total_sent() < bytes; ++nap)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return hub_.total_sent() >= bytes;
  }
  static std::vector<nlohmann::json> events_of(const std::string& out) {
    std::vector<nlohmann::json> events;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
    return events;
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

TEST_F(Pull, commands_download_with_the_flag_and_ask_nothing_of_the_hub_afterwards) {
  const Result answer = test::run({"generate", "--pull", "-m", kName, "-p", "hi", "-n", "4", "-t", "1"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_NE(answer.err.find("licence apache-2.0"), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("found for the model"), std::string::npos) << answer.err;
  EXPECT_EQ(hub_.requests().front().header("user-agent").find("slipstream/"), 0u);
  hub_.forget_requests();
  EXPECT_EQ(test::run({"generate", "--pull", "-m", kName, "-p", "hi", "-n", "4", "-t", "1"}).code, 0);
  EXPECT_EQ(test::run({"inspect", "-m", kName}).code, 0);
  EXPECT_EQ(test::run({"tokenize", "-m", kName, "hi"}).code, 0);
  EXPECT_TRUE(hub_.requests().empty());
}

TEST_F(Pull, a_model_that_is_here_in_part_is_refused_with_the_command_that_fetches_the_rest) {
  ASSERT_EQ(test::run({"pull", kName}).code, 0);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path("cache"))) {
    if (entry.path().filename() == "model.safetensors") std::filesystem::remove(entry.path());
  }
  for (const std::vector<std::string>& words : {std::vector<std::string>{"generate", "-m", kName, "-p", "hi"},
                                                {"inspect", "-m", kName},
                                                {"bench", "-m", kName}}) {
    const Result refused = test::run(words);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_NE(refused.err.find("lacks model.safetensors"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("slipstream pull google/gemma-4-test-it"), std::string::npos) << refused.err;
  }
  EXPECT_EQ(test::run({"tokenize", "-m", kName, "hi"}).code, 0) << "it reads no weights";
}

TEST_F(Pull, on_a_terminal_the_plan_comes_with_a_question) {
  {
    test::PtyProgram terminal({"inspect", "-m", kName});
    ASSERT_TRUE(terminal.wait_for("download ")) << terminal.output();
    EXPECT_NE(terminal.output().find("it fits"), std::string::npos);
    terminal.send("n\r");
    EXPECT_EQ(terminal.finish(), 1) << terminal.output();
    EXPECT_NE(terminal.output().find("nothing was changed"), std::string::npos) << terminal.output();
    EXPECT_FALSE(std::filesystem::exists(folder_.path("cache")));
  }
  test::PtyProgram terminal({"inspect", "-m", kName});
  ASSERT_TRUE(terminal.wait_for("download ")) << terminal.output();
  terminal.send("\r");
  EXPECT_EQ(terminal.finish(), 0) << terminal.output();
  EXPECT_NE(terminal.output().find("architecture"), std::string::npos) << terminal.output();
}

TEST_F(Pull, an_interrupted_pull_says_how_to_go_on_and_goes_on) {
  slow_down();
  const TemporaryFolder output;
  const pid_t child = test::start({"pull", kName, "--no-drafter"}, "", output.path());
  ASSERT_TRUE(wait_for_sent(600'000));
  ::kill(child, SIGINT);
  const Result result = test::finish(child, output.path());
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_NE(result.err.find("interrupted; the same command goes on"), std::string::npos) << result.err;
  hub_.set_script({});
  EXPECT_EQ(test::run({"pull", kName, "--no-drafter"}).code, 0);
}

TEST_F(Pull, waiting_for_another_pull_can_be_interrupted) {
  slow_down();
  const TemporaryFolder first_output, output;
  const pid_t first = test::start({"pull", kName, "--no-drafter"}, "", first_output.path());
  ASSERT_TRUE(wait_for_sent(600'000));
  const pid_t second = test::start({"pull", kName, "--no-drafter"}, "", output.path());
  for (int nap = 0;
       nap < 3000 && test::read_file(output.path("err.txt")).find("under way") == std::string::npos; ++nap) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(second, SIGINT);
  const Result result = test::finish(second, output.path());
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_NE(result.err.find("another pull of google/gemma-4-test-it is under way"), std::string::npos)
      << result.err;
  ::kill(first, SIGKILL);
  test::finish(first, first_output.path());
}

TEST_F(Pull, a_disk_that_is_too_small_is_refused_after_the_plan) {
  test::FakeFile& weights = hub_.repository(kName).files.at("model.safetensors");
  weights.size = uint64_t{1} << 43;
  for (const bool dry : {false, true}) {
    std::vector<std::string> words{"pull", kName};
    if (dry) words.emplace_back("--dry-run");
    const Result refused = test::run(words);
    EXPECT_EQ(refused.code, 4) << refused.err;
    EXPECT_NE(refused.err.find("licence"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("the disk has only"), std::string::npos) << refused.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path("cache")));
}

TEST_F(Pull, programs_get_an_object_a_line) {
  const Result pulled = test::run({"pull", kName, "--json"});
  ASSERT_EQ(pulled.code, 0) << pulled.err;
  EXPECT_EQ(pulled.err, "");
  const auto events = events_of(pulled.out);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.front()["event"], "plan");
  EXPECT_EQ(events.front()["fit"]["fits"], true);
  EXPECT_GT(events.front()["fit"]["context"], 0);
  EXPECT_EQ(events.back()["event"], "done");
  EXPECT_GT(events.back()["fetched"], 100'000);
  size_t files = 0;
  for (const auto& event : events) files += event["event"] == "file" ? 1 : 0;
  EXPECT_EQ(files, events.front()["model"]["files"].size() + events.front()["drafter"]["files"].size());
}

TEST_F(Pull, the_list_says_which_context_fits) {
  ASSERT_EQ(test::run({"pull", kName}).code, 0);
  const auto list = nlohmann::json::parse(test::run({"list", "--json"}).out);
  EXPECT_GT(list[0]["context"], 0);
  const std::string text = test::run({"list"}).out;
  for (const char* word : {"tower", "context", "last used", "bits"})
    EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST_F(Pull, the_token_is_in_no_output) {
  setenv("HF_TOKEN", "hf_verysecret", 1);
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"pull", kName, "--json"}, {"pull", "google/nope"}, {"list"}, {"show", kName}}) {
    const Result result = test::run(words);
    EXPECT_EQ((result.out + result.err).find("verysecret"), std::string::npos) << result.out << result.err;
  }
  unsetenv("HF_TOKEN");
}

TEST_F(Pull, a_name_that_is_wrong_gets_a_sentence) {
  const Result wrong = test::run({"pull", "google/gemma-4-nope"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(std::count(wrong.err.begin(), wrong.err.end(), '\n'), 1) << wrong.err;
  EXPECT_EQ(test::run({"pull", "a/b/c/d"}).code, 1);
}

}  // namespace
}  // namespace slip::cli
