#include "hub/names.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/error.h"

namespace slip::hub {
namespace {

std::string repository(std::string_view text, std::string_view endpoint = "") {
  return parse_model_name(text, endpoint).repository;
}

TEST(Names, every_way_to_name_a_repository_leads_to_it) {
  for (const char* text :
       {"google/gemma-4-E2B-it", "hf.co/google/gemma-4-E2B-it", "huggingface.co/google/gemma-4-E2B-it",
        "https://huggingface.co/google/gemma-4-E2B-it", "https://huggingface.co/google/gemma-4-E2B-it/",
        "http://hf.co/google/gemma-4-E2B-it", "HTTPS://HuggingFace.co/google/gemma-4-E2B-it?library=x#files",
        "https://huggingface.co/google/gemma-4-E2B-it/tree/main", "hf://google/gemma-4-E2B-it",
        "https://huggingface.co/google/gemma-4-E2B-it/blob/main/config.json"}) {
    EXPECT_EQ(repository(text), "google/gemma-4-E2B-it") << text;
  }
  EXPECT_EQ(repository("http://127.0.0.1:8080/me/mine", "http://127.0.0.1:8080"), "me/mine");
  EXPECT_EQ(repository("some-name"), "some-name");
}

TEST(Names, a_revision_comes_behind_an_at_or_stands_in_the_address) {
  EXPECT_EQ(parse_model_name("me/x").revision, "");
  EXPECT_EQ(parse_model_name("me/x").revision_or_main(), "main");
  EXPECT_EQ(parse_model_name("me/x@v1.0").revision, "v1.0");
  EXPECT_EQ(parse_model_name("me/x@refs/pr/1").revision, "refs/pr/1");
  EXPECT_EQ(parse_model_name("https://hf.co/me/x/tree/dev").revision, "dev");
  EXPECT_EQ(parse_model_name("https://hf.co/me/x/tree/refs/pr/12").revision, "refs/pr/12");
  EXPECT_EQ(parse_model_name("hf.co/me/x@dev").revision, "dev");
  EXPECT_EQ(parse_model_name("gemma-4-e2b@dev").revision, "dev");
  EXPECT_EQ(parse_model_name("gemma-4-e2b@dev").repository, "google/gemma-4-E2B-it");
}

TEST(Names, what_cannot_be_a_name_is_refused) {
  for (const char* text : {"",
                           "a/b/c",
                           "/",
                           "a/",
                           "/b",
                           "../..",
                           "a/..",
                           "a/.b",
                           "-a/b",
                           "a--b/c",
                           "a/b--c",
                           "a b",
                           "a/b\n",
                           "a\\b",
                           "a/b@",
                           "a/b@..",
                           "a/b@x/../y",
                           "a/b@-\x01",
                           "a/b@/x",
                           "https://example.org/a/b",
                           "https://huggingface.co/a",
                           "https://huggingface.co/datasets/a/b",
                           "https://huggingface.co/",
                           "hf.co/a",
                           "a/b:Q4_K_M",
                           "gemma-4-e2b:5bit",
                           "\xff/x"}) {
    try {
      parse_model_name(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << text;
    }
  }
  EXPECT_THROW(parse_model_name(std::string(5000, 'a')), Error);
}

/// The sizes that facts about the published models give, typed anew.
TEST(Names, the_table_agrees_with_what_is_published) {
  struct Row {
    const char *name, *repository;
    uint64_t bytes, drafter_bytes;
  };
  for (const Row& row :
       {Row{"gemma-4-e2b", "google/gemma-4-E2B-it", 10246621918, 157565344},
        Row{"gemma-4-e4b", "google/gemma-4-E4B-it", 15992595884, 159138208},
        Row{"gemma-4-12b", "google/gemma-4-12B-it", 23919549408, 845719296},
        Row{"gemma-4-26b", "google/gemma-4-26B-A4B-it", 51612009916, 839427840},
        Row{"gemma-4-31b", "google/gemma-4-31B-it", 62546338248, 939042560},
        Row{"gemma-4-e2b:4bit", "mlx-community/gemma-4-e2b-it-4bit", 3550670554, 157565344}}) {
    const NamedModel* model = find_named(row.name);
    ASSERT_NE(model, nullptr) << row.name;
    EXPECT_STREQ(model->repository, row.repository);
    EXPECT_EQ(model->bytes, row.bytes) << row.name;
    EXPECT_EQ(model->drafter_bytes, row.drafter_bytes) << row.name;
    EXPECT_TRUE(model->exact);
  }
  const auto about = [](const char* name, const char* repository_name, double gigabytes) {
    const NamedModel* model = find_named(name);
    ASSERT_NE(model, nullptr) << name;
    EXPECT_STREQ(model->repository, repository_name);
    EXPECT_NEAR(static_cast<double>(model->bytes) / 1e9, gigabytes, 0.05);
    EXPECT_FALSE(model->exact);
  };
  about("gemma-4-e4b:4bit", "mlx-community/gemma-4-e4b-it-4bit", 5.1);
  about("gemma-4-26b:4bit", "mlx-community/gemma-4-26b-a4b-it-4bit", 15.3);
  about("gemma-4-31b:4bit", "mlx-community/gemma-4-31b-it-4bit", 18.4);
  EXPECT_STREQ(find_named("gemma-4-12b:4bit")->repository, "mlx-community/gemma-4-12B-it-4bit");
}

TEST(Names, dflash_drafters_are_those_that_z_lab_published) {
  const auto dflash = [](const char* name, const char* repository, uint64_t bytes) {
    for (const std::string variant : {"", ":4bit"}) {
      const NamedModel* model = find_named(name + variant);
      ASSERT_NE(model, nullptr);
      EXPECT_STREQ(model->dflash, repository);
      EXPECT_EQ(model->dflash_bytes, bytes);
    }
  };
  dflash("gemma-4-e2b", nullptr, 0);
  dflash("gemma-4-e4b", nullptr, 0);
  dflash("gemma-4-12b", "z-lab/gemma4-12B-it-DFlash", 1455000120);  // without the hyphen of the others
  dflash("gemma-4-26b", "z-lab/gemma-4-26B-A4B-it-DFlash", 859384328);
  dflash("gemma-4-31b", "z-lab/gemma-4-31B-it-DFlash", 3071941240);
}

TEST(Names, every_row_names_a_drafter_and_a_way_to_something_smaller) {
  for (const NamedModel& model : named_models()) {
    EXPECT_TRUE(is_repository(model.repository));
    EXPECT_EQ(std::string(model.drafter).substr(0, 7), "google/");
    EXPECT_EQ(model.bits == 16, model.smaller != nullptr);
    if (model.smaller == nullptr) continue;
    const NamedModel* smaller = find_named(model.smaller);
    ASSERT_NE(smaller, nullptr);
    EXPECT_LT(smaller->bytes, model.bytes / 2);
    EXPECT_LT(needed_gigabytes(*smaller), needed_gigabytes(model));
    EXPECT_STREQ(smaller->drafter, model.drafter);
    EXPECT_STREQ(smaller->dflash, model.dflash);
    EXPECT_STREQ(smaller->size, model.size);
  }
  EXPECT_EQ(find_named("GEMMA-4-E2B"), find_named("gemma-4-e2b"));
  EXPECT_EQ(find_by_repository("google/gemma-4-e2b-IT"), find_named("gemma-4-e2b"));
}

TEST(Names, an_address_may_have_its_revision_encoded) {
  EXPECT_EQ(parse_model_name("https://huggingface.co/a/b/tree/refs%2Fpr%2F1").revision, "refs/pr/1");
  EXPECT_EQ(parse_model_name("hf.co/a/b/tree/feature%2fx").revision, "feature/x");
  EXPECT_EQ(parse_model_name("hf.co/a/b@feature/x").revision, "feature/x");
  EXPECT_THROW(parse_model_name("hf.co/a/b/tree/..%2F..%2Fx"), Error);
  EXPECT_THROW(parse_model_name("hf.co/a/b/tree/%00"), Error);
  EXPECT_EQ(parse_model_name("hf.co/a/b/tree/100%").revision, "100%");
}

TEST(Names, the_page_of_models_shows_the_table) {
  std::ifstream file(SLIP_MODELS_PAGE);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(page.find(named_models_markdown()), std::string::npos) << "docs/models.md must hold this table:\n"
                                                                   << named_models_markdown();
}

TEST(Names, close_names_come_first) {
  const std::vector<std::string> cached{"me/mine", "google/gemma-4-E2B-it"};
  EXPECT_EQ(similar_names("gemma-4-e2", cached).front(), "gemma-4-e2b");
  EXPECT_EQ(similar_names("gogle/gemma-4-E2B-it", cached).front(), "google/gemma-4-E2B-it");
  EXPECT_EQ(similar_names("me/mime", cached).front(), "me/mine");
  EXPECT_TRUE(similar_names("entirely-different-words", cached).empty());
}

}  // namespace
}  // namespace slip::hub
