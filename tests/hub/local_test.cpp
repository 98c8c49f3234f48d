#include "hub/local.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/files.h"

namespace slip::hub {
namespace {

using test::expect_bad_file;
using test::TempFolder;

/// A cache with four models of two owners.
class Local : public testing::Test {
 protected:
  Local() {
    environment_.cache = cache_.path();
    environment_.endpoint = "http://127.0.0.1:1";
    add("google", "gemma-4-E2B-it", "aaa1", "first");
    add("google", "gemma-4-E2B-it", "bbb2", "second");
    cache_.write("models--google--gemma-4-E2B-it/refs/main", "bbb2\n");
    add("google", "gemma-4-31B-it", "ccc3", "x");
    add("google", "twin", "ddd4", "x");
    add("others", "twin", "eee5", "x");
    cache_.write("datasets--google--gemma-4-E2B-it/refs/main", "zzz");
    cache_.write("version.txt", "1");
    cache_.write("blobs/ab/abcdef", "a store that repositories share");
  }
  void add(const std::string& owner, const std::string& name, const std::string& revision,
           const std::string& text) {
    const std::string folder = "models--" + owner + "--" + name + "/snapshots/" + revision;
    cache_.write(folder + "/config.json", text);
    if (name.find("-assistant") != std::string::npos) cache_.write(folder + "/model.safetensors", "x");
  }
  std::string find(const std::string& name) { return resolve_model(name, environment_); }
  std::string assistant(const std::string& model) { return find_assistant(model, environment_); }
  std::string snapshot(const std::string& model, const std::string& revision) {
    return cache_ / ("models--" + model + "/snapshots/" + revision);
  }

  TempFolder cache_;
  Environment environment_;
};

TEST_F(Local, a_folder_is_taken_as_it_is) {
  EXPECT_EQ(find(cache_.path()), cache_.path());
}

TEST_F(Local, a_cached_model_is_found_with_and_without_its_owner) {
  EXPECT_EQ(find("google/gemma-4-E2B-it"), snapshot("google--gemma-4-E2B-it", "bbb2"));
  EXPECT_EQ(find("gemma-4-E2B-it"), snapshot("google--gemma-4-E2B-it", "bbb2"));
  EXPECT_EQ(find("gemma-4-e2b-IT"), snapshot("google--gemma-4-E2B-it", "bbb2"));
  EXPECT_EQ(find("Google/gemma-4-e2b-IT"), snapshot("google--gemma-4-E2B-it", "bbb2"));
  EXPECT_EQ(find("https://huggingface.co/google/gemma-4-E2B-it"), snapshot("google--gemma-4-E2B-it", "bbb2"));
  EXPECT_EQ(find("gemma-4-31B-it"), snapshot("google--gemma-4-31B-it", "ccc3"));
}

TEST_F(Local, a_name_of_the_table_wins_over_what_the_cache_holds) {
  EXPECT_EQ(find("gemma-4-31b"), snapshot("google--gemma-4-31B-it", "ccc3"));
  add("someone", "gemma-4-e4b", "abc", "x");
  expect_bad_file([&] { find("gemma-4-e4b"); }, {"'gemma-4-e4b'", "slipstream pull gemma-4-e4b"});
}

TEST_F(Local, a_revision_is_a_reference_or_a_whole_commit) {
  const std::string commit(40, 'a');
  add("google", "gemma-4-31B-it", commit, "x");
  cache_.write("models--google--gemma-4-31B-it/refs/main", "ccc3");
  cache_.write("models--google--gemma-4-31B-it/refs/refs/pr/1", commit);
  EXPECT_EQ(find("google/gemma-4-31B-it"), snapshot("google--gemma-4-31B-it", "ccc3"));
  EXPECT_EQ(find("google/gemma-4-31B-it@" + commit), snapshot("google--gemma-4-31B-it", commit));
  EXPECT_EQ(find("google/gemma-4-31B-it@refs/pr/1"), snapshot("google--gemma-4-31B-it", commit));
  expect_bad_file([&] { find("google/gemma-4-31B-it@v9"); }, {"slipstream pull google/gemma-4-31B-it@v9"});
}

TEST_F(Local, a_reference_that_leads_nowhere_falls_back_to_a_snapshot) {
  for (const char* revision : {"fff9", "../../..", "", "/etc"}) {
    cache_.write("models--google--gemma-4-31B-it/refs/main", revision);
    EXPECT_EQ(find("gemma-4-31B-it"), snapshot("google--gemma-4-31B-it", "ccc3"));
  }
}

TEST_F(Local, a_name_that_fits_two_models_is_refused_with_both) {
  expect_bad_file([&] { find("twin"); }, {"'twin'", "google/twin", "others/twin"});
  EXPECT_EQ(find("others/twin"), snapshot("others--twin", "eee5"));
}

TEST_F(Local, an_unknown_name_says_where_it_looked_what_resembles_it_and_how_to_get_it) {
  expect_bad_file([&] { find("gemma-4-E4B-it"); }, {"'gemma-4-E4B-it'", cache_.path(), "slipstream pull"});
  expect_bad_file([&] { find("google/gemma-4-E2B"); }, {"did you mean", "google/gemma-4-E2B-it"});
  expect_bad_file([&] { find("something-else-entirely"); },
                  {"4 models are there", "none with a similar name"});
  environment_.cache = cache_ / "absent";
  expect_bad_file([&] { find("google/gemma-4-E4B-it"); },
                  {"absent", "no models are there", "slipstream pull"});
  expect_bad_file([&] { find("./no-such-folder"); }, {"no such folder"});
}

TEST_F(Local, what_is_missing_of_a_model_is_known) {
  const auto presence = [&] { return find_local(parse_model_name("google/part"), environment_); };
  EXPECT_EQ(presence().presence, Presence::kAbsent);
  add("google", "part", "abc1", "{}");
  EXPECT_EQ(presence().presence, Presence::kPartial);
  EXPECT_EQ(presence().missing, std::vector<std::string>{"model.safetensors"});
  const std::string folder = "models--google--part/snapshots/abc1/";
  cache_.write(folder + "model.safetensors.index.json",
               R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})");
  cache_.write(folder + "1.safetensors", "x");
  EXPECT_EQ(presence().missing, std::vector<std::string>{"2.safetensors"});
  std::filesystem::create_symlink("../../blobs/gone", cache_ / (folder + "2.safetensors"));
  EXPECT_EQ(presence().missing, std::vector<std::string>{"2.safetensors"});
  cache_.write("models--google--part/blobs/gone", "x");
  EXPECT_EQ(presence().presence, Presence::kComplete);
  cache_.write(folder + "model.safetensors.index.json", "[");
  EXPECT_EQ(presence().missing, std::vector<std::string>{"model.safetensors.index.json"});
}

TEST_F(Local, the_assistant_of_a_cached_model_is_found_by_its_name_or_its_folder) {
  const std::string folder = snapshot("google--gemma-4-E2B-it", "bbb2");
  EXPECT_EQ(assistant("google/gemma-4-E2B-it"), "");
  EXPECT_EQ(assistant(folder), "");
  add("google", "gemma-4-E2B-it-assistant", "fff6", "x");
  const std::string found = snapshot("google--gemma-4-E2B-it-assistant", "fff6");
  for (const char* name : {"google/gemma-4-E2B-it", "gemma-4-E2B-it", "gemma-4-e2b-IT", "gemma-4-e2b"}) {
    EXPECT_EQ(assistant(name), found) << name;
  }
  EXPECT_EQ(assistant(folder), found);
  EXPECT_EQ(assistant(folder + "/"), found);
  EXPECT_EQ(find_assistant(folder, Environment{}), found);  // its own cache, whatever the environment says
  for (const char* name : {"gemma-4-31B-it", "others/gemma-4-E2B-it", "nonsense", "", "a/b/c"}) {
    EXPECT_EQ(assistant(name), "") << name;
  }
}

TEST_F(Local, a_converted_model_takes_the_assistant_of_the_model_it_was_made_from) {
  add("mlx-community", "gemma-4-31B-it-4bit", "abc1", "x");
  const std::string model = "mlx-community/gemma-4-31B-it-4bit";
  EXPECT_EQ(assistant(model), "");
  add("google", "gemma-4-31B-it-assistant", "abc2", "x");
  EXPECT_EQ(assistant(model), snapshot("google--gemma-4-31B-it-assistant", "abc2"));
  add("mlx-community", "gemma-4-31B-it-assistant-bf16", "abc3", "x");
  EXPECT_EQ(assistant(model), snapshot("mlx-community--gemma-4-31B-it-assistant-bf16", "abc3"));
  add("mlx-community", "gemma-4-31B-it-4bit-assistant", "abc4", "x");
  EXPECT_EQ(assistant(model), snapshot("mlx-community--gemma-4-31B-it-4bit-assistant", "abc4"));
  // Trained anew: another model's assistant is not its own.
  add("mlx-community", "gemma-4-31B-it-qat-4bit", "abc5", "x");
  EXPECT_EQ(assistant("mlx-community/gemma-4-31B-it-qat-4bit"), "");
}

TEST_F(Local, an_assistant_that_came_in_part_is_none) {
  add("google", "gemma-4-31B-it-assistant", "abc2", "x");
  EXPECT_NE(assistant("gemma-4-31B-it"), "");
  std::filesystem::remove(snapshot("google--gemma-4-31B-it-assistant", "abc2") + "/model.safetensors");
  EXPECT_EQ(assistant("gemma-4-31B-it"), "");
}

TEST_F(Local, the_dflash_drafter_of_the_table_is_found_when_it_is_whole) {
  const auto dflash = [&](const std::string& model) { return find_dflash(model, environment_); };
  EXPECT_EQ(dflash("gemma-4-31b"), "");
  const std::string name = "models--z-lab--gemma-4-31B-it-DFlash/snapshots/abc/";
  cache_.write(name + "config.json", "{}");
  EXPECT_EQ(dflash("gemma-4-31b"), "");
  cache_.write(name + "model.safetensors", "x");
  const std::string found = snapshot("z-lab--gemma-4-31B-it-DFlash", "abc");
  for (const std::string& model :
       {std::string("gemma-4-31b"), std::string("google/gemma-4-31B-it"), std::string("gemma-4-31B-it"),
        std::string("someone/gemma-4-31B-it-8bit"), snapshot("google--gemma-4-31B-it", "ccc3")}) {
    EXPECT_EQ(dflash(model), found) << model;
  }
  EXPECT_EQ(find_dflash(snapshot("google--gemma-4-31B-it", "ccc3"), Environment{}), found);
  for (const char* model : {"gemma-4-e2b", "others/twin", "", "a/b/c", "/nowhere"})
    EXPECT_EQ(dflash(model), "");
}

TEST_F(Local, an_assistant_without_a_config_is_none) {
  cache_.write("models--google--gemma-4-31B-it-assistant/snapshots/abc/model.safetensors", "x");
  EXPECT_EQ(assistant("gemma-4-31B-it"), "");
  cache_.write("models--google--twin-assistant/refs/main", "abc");  // no snapshot at all
  EXPECT_EQ(assistant("google/twin"), "");
}

TEST_F(Local, a_pull_brings_the_assistant_of_the_original) {
  EXPECT_EQ(assistant_repository("google/gemma-4-E2B-it"), "google/gemma-4-E2B-it-assistant");
  EXPECT_EQ(assistant_repository("mlx-community/gemma-4-e2b-it-4bit"), "google/gemma-4-E2B-it-assistant");
  EXPECT_EQ(assistant_repository("someone/gemma-4-31B-it-mlx-8bit"), "google/gemma-4-31B-it-assistant");
  EXPECT_EQ(assistant_repository("someone/other"), "");
}

TEST(LocalFolders, an_assistant_beside_the_folder_or_in_it_is_found) {
  const TempFolder models;
  const Environment none;
  models.write("gemma/config.json", "{}");
  const std::string model = models / "gemma";
  EXPECT_EQ(find_assistant(model, none), "");
  std::filesystem::create_directories(models / "gemma-assistant");
  EXPECT_EQ(find_assistant(model, none), "");  // no config.json in it
  models.write("gemma/assistant/config.json", "{}");
  EXPECT_EQ(find_assistant(model, none), models / "gemma/assistant");
  models.write("gemma-assistant/config.json", "{}");
  for (const char* slash : {"", "/", "/."})
    EXPECT_EQ(find_assistant(model + slash, none), models / "gemma-assistant");
  models.write("gemma-mlx-4bit/config.json", "{}");
  EXPECT_EQ(find_assistant(models / "gemma-mlx-4bit", none), models / "gemma-assistant");
  models.write("gemma-2/config.json", "{}");
  EXPECT_EQ(find_assistant(models / "gemma-2", none), "");
}

}  // namespace
}  // namespace slip::hub
