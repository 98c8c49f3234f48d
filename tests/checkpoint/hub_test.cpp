#include "checkpoint/hub.h"

#include <gtest/gtest.h>

#include "checkpoint/files.h"

namespace slip::checkpoint {
namespace {

using test::expect_bad_file;
using test::TempFolder;

/// A cache with four models of two organisations.
class Hub : public testing::Test {
 protected:
  Hub() {
    add("google", "gemma-4-E2B-it", "aaa1", "first");
    add("google", "gemma-4-E2B-it", "bbb2", "second");
    cache_.write("models--google--gemma-4-E2B-it/refs/main", "bbb2\n");
    add("google", "gemma-4-31B-it", "ccc3", "x");
    add("google", "twin", "ddd4", "x");
    add("others", "twin", "eee5", "x");
    cache_.write("datasets--google--gemma-4-E2B-it/refs/main", "zzz");
    cache_.write("version.txt", "1");
  }
  void add(const std::string& organisation, const std::string& name, const std::string& revision,
           const std::string& text) {
    cache_.write("models--" + organisation + "--" + name + "/snapshots/" + revision + "/config.json", text);
  }
  std::string find(const std::string& name) {
    return resolve_model(name, {cache_ / "absent", cache_.path()});
  }
  std::string snapshot(const std::string& model, const std::string& revision) {
    return cache_ / ("models--" + model + "/snapshots/" + revision);
  }

  TempFolder cache_;
};

TEST_F(Hub, a_folder_is_taken_as_it_is) {
  EXPECT_EQ(find(cache_.path()), cache_.path());
}

TEST_F(Hub, a_cached_model_is_found_with_and_without_its_organisation) {
  EXPECT_EQ(find("google/gemma-4-E2B-it"), snapshot("google--gemma-4-E2B-it", "bbb2"));
  EXPECT_EQ(find("gemma-4-E2B-it"), snapshot("google--gemma-4-E2B-it", "bbb2"));
  EXPECT_EQ(find("gemma-4-e2b-IT"), snapshot("google--gemma-4-E2B-it", "bbb2"));
  EXPECT_EQ(find("gemma-4-31B-it"), snapshot("google--gemma-4-31B-it", "ccc3"));
}

TEST_F(Hub, a_reference_that_leads_nowhere_falls_back_to_a_snapshot) {
  for (const char* revision : {"fff9", "../../..", "", "/etc"}) {
    cache_.write("models--google--gemma-4-31B-it/refs/main", revision);
    EXPECT_EQ(find("gemma-4-31B-it"), snapshot("google--gemma-4-31B-it", "ccc3"));
  }
}

TEST_F(Hub, a_name_that_fits_two_models_is_refused_with_both) {
  expect_bad_file([&] { find("twin"); }, {"'twin'", "google/twin", "others/twin"});
  EXPECT_EQ(find("others/twin"), snapshot("others--twin", "eee5"));
}

TEST_F(Hub, an_unknown_name_says_where_it_looked_and_what_resembles_it) {
  expect_bad_file([&] { find("gemma-4-E4B-it"); },
                  {"'gemma-4-E4B-it'", cache_.path(), "google/gemma-4-E2B-it"});
  expect_bad_file([&] { find("google/gemma-4-E2B"); }, {"did you mean google/gemma-4-E2B-it"});
  expect_bad_file([&] { find("something-else-entirely"); },
                  {"4 models are there", "none with a similar name"});
  expect_bad_file([&] { resolve_model("gemma", {cache_ / "absent"}); }, {"absent", "no models are there"});
}

TEST_F(Hub, a_model_without_snapshots_is_refused) {
  cache_.write("models--google--cut/refs/main", "abc");
  expect_bad_file([&] { find("google/cut"); }, {"'google/cut'", "no snapshot"});
}

TEST_F(Hub, the_assistant_of_a_cached_model_is_found_by_its_name_or_its_folder) {
  const auto assistant = [&](const std::string& model) {
    return find_assistant(model, {cache_ / "absent", cache_.path()});
  };
  const std::string folder = snapshot("google--gemma-4-E2B-it", "bbb2");
  EXPECT_EQ(assistant("google/gemma-4-E2B-it"), "");
  EXPECT_EQ(assistant(folder), "");
  add("google", "gemma-4-E2B-it-assistant", "fff6", "x");
  const std::string found = snapshot("google--gemma-4-E2B-it-assistant", "fff6");
  EXPECT_EQ(assistant("google/gemma-4-E2B-it"), found);
  EXPECT_EQ(assistant("gemma-4-E2B-it"), found);
  EXPECT_EQ(assistant("gemma-4-e2b-IT"), found);
  EXPECT_EQ(assistant(folder), found);
  EXPECT_EQ(assistant(folder + "/"), found);
  EXPECT_EQ(find_assistant(folder, {}), found);  // its own cache, named or not
  EXPECT_EQ(assistant("gemma-4-31B-it"), "");
  EXPECT_EQ(assistant("others/gemma-4-E2B-it"), "");
  EXPECT_EQ(assistant("nonsense"), "");
  EXPECT_EQ(assistant(""), "");
}

TEST_F(Hub, a_converted_model_takes_the_assistant_of_the_model_it_was_made_from) {
  add("mlx-community", "gemma-4-31B-it-4bit", "abc1", "x");
  const auto assistant = [&] { return find_assistant("mlx-community/gemma-4-31B-it-4bit", {cache_.path()}); };
  EXPECT_EQ(assistant(), "");
  add("google", "gemma-4-31B-it-assistant", "abc2", "x");
  EXPECT_EQ(assistant(), snapshot("google--gemma-4-31B-it-assistant", "abc2"));
  add("mlx-community", "gemma-4-31B-it-assistant-bf16", "abc3", "x");
  EXPECT_EQ(assistant(), snapshot("mlx-community--gemma-4-31B-it-assistant-bf16", "abc3"));
  add("mlx-community", "gemma-4-31B-it-4bit-assistant", "abc4", "x");
  EXPECT_EQ(assistant(), snapshot("mlx-community--gemma-4-31B-it-4bit-assistant", "abc4"));
  add("mlx-community", "gemma-4-31B-it-qat-4bit", "abc5",
      "x");  // trained anew: another model's assistant is not its own
  EXPECT_EQ(find_assistant("mlx-community/gemma-4-31B-it-qat-4bit", {cache_.path()}), "");
}

TEST_F(Hub, an_assistant_without_a_config_is_none) {
  cache_.write("models--google--gemma-4-31B-it-assistant/snapshots/abc/model.safetensors", "x");
  EXPECT_EQ(find_assistant("gemma-4-31B-it", {cache_.path()}), "");
  cache_.write("models--google--twin-assistant/refs/main", "abc");  // no snapshot at all
  EXPECT_EQ(find_assistant("google/twin", {cache_.path()}), "");
  add("google", "gemma-4-31B-it-assistant", "abc", "x");
  cache_.write("models--google--gemma-4-31B-it-assistant/refs/main", std::string(5000, 'a'));
  EXPECT_EQ(find_assistant("gemma-4-31B-it", {cache_.path()}), "");
}

TEST(FindAssistant, looks_beside_the_folder_and_in_it) {
  const TempFolder models;
  models.write("gemma/config.json", "{}");
  const std::string model = models / "gemma";
  EXPECT_EQ(find_assistant(model, {}), "");
  std::filesystem::create_directories(models / "gemma-assistant");
  EXPECT_EQ(find_assistant(model, {}), "");  // no config.json in it
  models.write("gemma/assistant/config.json", "{}");
  EXPECT_EQ(find_assistant(model, {}), models / "gemma/assistant");
  models.write("gemma-assistant/config.json", "{}");
  EXPECT_EQ(find_assistant(model, {}), models / "gemma-assistant");
  EXPECT_EQ(find_assistant(model + "/", {}), models / "gemma-assistant");
  EXPECT_EQ(find_assistant(model + "/.", {}), models / "gemma-assistant");
  models.write("gemma-mlx-4bit/config.json", "{}");
  EXPECT_EQ(find_assistant(models / "gemma-mlx-4bit", {}), models / "gemma-assistant");
  models.write("gemma-2/config.json", "{}");
  EXPECT_EQ(find_assistant(models / "gemma-2", {}), "");
}

TEST(HubCaches, the_environment_says_where_the_cache_is) {
  const auto keep = [](const char* name) {
    const char* value = getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  const std::string cache = keep("HF_HUB_CACHE"), home = keep("HF_HOME"), user = keep("HOME");
  unsetenv("HF_HUB_CACHE");
  unsetenv("HF_HOME");
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(hub_caches(), std::vector<std::string>{"/home/me/.cache/huggingface/hub"});
  setenv("HF_HOME", "/data/hf", 1);
  EXPECT_EQ(hub_caches(), std::vector<std::string>{"/data/hf/hub"});
  setenv("HF_HUB_CACHE", "/data/cache", 1);
  EXPECT_EQ(hub_caches(), std::vector<std::string>{"/data/cache"});
  cache.empty() ? unsetenv("HF_HUB_CACHE") : setenv("HF_HUB_CACHE", cache.c_str(), 1);
  home.empty() ? unsetenv("HF_HOME") : setenv("HF_HOME", home.c_str(), 1);
  setenv("HOME", user.c_str(), 1);
}

}  // namespace
}  // namespace slip::checkpoint
