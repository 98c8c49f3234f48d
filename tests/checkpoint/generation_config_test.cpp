#include "checkpoint/generation_config.h"

#include <gtest/gtest.h>

#include "checkpoint/files.h"

namespace slip::checkpoint {
namespace {

model::Config vocabulary_of_100() {
  model::Config config;
  config.vocab = 100;
  config.eos_ids = {1, 1, 7};
  return config;
}

GenerationConfig parse(const std::string& text) {
  return parse_generation_config(text, "generation_config.json", vocabulary_of_100());
}

TEST(GenerationConfig, what_the_makers_recommend_is_read) {
  const auto generation = parse(R"({"do_sample":true,"temperature":0.7,"top_k":64,"top_p":0.95,"min_p":0.01,
      "repetition_penalty":1.1,"eos_token_id":[1,50,6,50],"suppress_tokens":[83,82,83],"bos_token_id":2,
      "transformers_version":"5"})");
  EXPECT_TRUE(generation.do_sample);
  EXPECT_EQ(generation.temperature, 0.7f);
  EXPECT_EQ(generation.top_k, 64);
  EXPECT_EQ(generation.top_p, 0.95f);
  EXPECT_EQ(generation.min_p, 0.01f);
  EXPECT_EQ(generation.repetition_penalty, 1.1f);
  EXPECT_EQ(generation.stop_ids, (std::vector<int>{1, 50, 6}));
  EXPECT_EQ(generation.suppress_ids, (std::vector<int>{82, 83}));
}

TEST(GenerationConfig, silence_and_nulls_leave_the_defaults) {
  for (const char* text :
       {"{}", R"({"temperature":null,"eos_token_id":null,"top_k":null,"suppress_tokens":null})"}) {
    const auto generation = parse(text);
    EXPECT_FALSE(generation.do_sample);
    EXPECT_EQ(generation.temperature, 1.0f);
    EXPECT_EQ(generation.top_k, 0);
    EXPECT_EQ(generation.top_p, 1.0f);
    EXPECT_EQ(generation.stop_ids, (std::vector<int>{1, 7}));
    EXPECT_TRUE(generation.suppress_ids.empty());
  }
}

TEST(GenerationConfig, the_file_may_be_absent_but_not_broken) {
  const test::TempFolder folder;
  EXPECT_EQ(read_generation_config(folder.path(), vocabulary_of_100()).stop_ids, (std::vector<int>{1, 7}));
  folder.write("generation_config.json", R"({"eos_token_id":9})");
  EXPECT_EQ(read_generation_config(folder.path(), vocabulary_of_100()).stop_ids, std::vector<int>{9});
  folder.write("generation_config.json", "{oops");
  test::expect_bad_file([&] { read_generation_config(folder.path(), vocabulary_of_100()); },
                        {"generation_config.json", "not valid JSON"});
}

TEST(GenerationConfig, settings_that_make_no_sense_are_named) {
  const auto bad = [](const char* text, const char* field) {
    test::expect_bad_file([&] { parse(text); }, {"generation_config.json", field});
  };
  bad(R"({"temperature":-0.1})", "temperature");
  bad(R"({"temperature":"hot"})", "temperature");
  bad(R"({"top_p":0})", "top_p");
  bad(R"({"top_p":1.01})", "top_p");
  bad(R"({"min_p":-1})", "min_p");
  bad(R"({"top_k":-1})", "top_k");
  bad(R"({"top_k":1.5})", "top_k");
  bad(R"({"repetition_penalty":0})", "repetition_penalty");
  bad(R"({"eos_token_id":100})", "eos_token_id");
  bad(R"({"eos_token_id":[-1]})", "eos_token_id");
  bad(R"({"suppress_tokens":[1,"x"]})", "suppress_tokens");
  bad(R"({"do_sample":1})", "do_sample");
  bad("[]", "JSON object");
}

}  // namespace
}  // namespace slip::checkpoint
