#include "hub/environment.h"

#include <gtest/gtest.h>

#include <map>

#include "checkpoint/files.h"

namespace slip::hub {
namespace {

using Values = std::map<std::string, std::string>;

Environment read(const Values& values) {
  return read_environment([&](const std::string& name) {
    const auto at = values.find(name);
    return at == values.end() ? std::string() : at->second;
  });
}

TEST(HubEnvironment, the_cache_is_where_hugging_faces_client_has_it) {
  Values values{{"HOME", "/home/me"}};
  EXPECT_EQ(read(values).cache, "/home/me/.cache/huggingface/hub");
  values["XDG_CACHE_HOME"] = "/xdg";
  EXPECT_EQ(read(values).cache, "/xdg/huggingface/hub");
  values["HF_HOME"] = "~/hf";
  EXPECT_EQ(read(values).cache, "/home/me/hf/hub");
  values["HUGGINGFACE_HUB_CACHE"] = "$HOME/old";
  EXPECT_EQ(read(values).cache, "/home/me/old");
  values["HF_HUB_CACHE"] = "${DISK}/new/$UNKNOWN";
  values["DISK"] = "/disk";
  EXPECT_EQ(read(values).cache, "/disk/new/$UNKNOWN");
  EXPECT_EQ(read({}).cache, "");
}

TEST(HubEnvironment, a_token_comes_from_a_variable_or_from_hugging_faces_file) {
  const test::TempFolder folder;
  folder.write("token", " hf_file\n");
  Values values{{"HF_HOME", folder.path()}};
  EXPECT_EQ(read(values).token, "hf_file");
  values["HF_TOKEN_PATH"] = folder.write("other", "hf_other");
  EXPECT_EQ(read(values).token, "hf_other");
  values["HUGGING_FACE_HUB_TOKEN"] = "hf_old";
  EXPECT_EQ(read(values).token, "hf_old");
  values["HF_TOKEN"] = " hf_new ";
  EXPECT_EQ(read(values).token, "hf_new");
  values["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "true";
  EXPECT_EQ(read(values).token, "");
}

TEST(HubEnvironment, a_token_that_could_break_out_of_its_header_is_refused_and_not_shown) {
  for (const char* token : {"hf_a\r\nX: y", "hf_a b", "hf_\x7f"}) {
    try {
      read({{"HF_TOKEN", token}});
      ADD_FAILURE() << token;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("hf_a"), std::string::npos);
    }
  }
}

TEST(HubEnvironment, switches_are_words) {
  EXPECT_FALSE(read({}).offline);
  for (const char* word : {"1", "on", "Yes", "TRUE"})
    EXPECT_TRUE(read({{"HF_HUB_OFFLINE", word}}).offline) << word;
  for (const char* word : {"", "0", "no", "false"})
    EXPECT_FALSE(read({{"HF_HUB_OFFLINE", word}}).offline) << word;
  EXPECT_TRUE(read({{"TRANSFORMERS_OFFLINE", "1"}}).offline);
  EXPECT_FALSE(read({{"HF_HUB_DISABLE_SYMLINKS", "1"}}).use_links);
}

TEST(HubEnvironment, a_mirror_is_an_address_without_its_last_slash) {
  EXPECT_EQ(read({}).endpoint, "https://huggingface.co");
  EXPECT_EQ(read({{"HF_ENDPOINT", "https://mirror.example/hf/"}}).endpoint, "https://mirror.example/hf");
  EXPECT_THROW(read({{"HF_ENDPOINT", "mirror"}}), Error);
  EXPECT_THROW(read({{"HF_ENDPOINT", "file:///x"}}), Error);
}

TEST(HubEnvironment, patience_is_in_seconds) {
  EXPECT_EQ(read({}).silence.count(), 10);
  EXPECT_EQ(read({{"HF_HUB_DOWNLOAD_TIMEOUT", "30"}}).silence.count(), 30);
  EXPECT_EQ(read({{"HF_HUB_ETAG_TIMEOUT", "30"}}).metadata_silence.count(), 30);
  for (const char* wrong : {"0", "-1", "x", "99999", "1.5"}) {
    EXPECT_EQ(read({{"HF_HUB_DOWNLOAD_TIMEOUT", wrong}}).silence.count(), 10) << wrong;
  }
}

TEST(HubEnvironment, every_copy_of_the_token_is_taken_out) {
  EXPECT_EQ(scrub("a hf_x b hf_x", "hf_x"), "a (token) b (token)");
  EXPECT_EQ(scrub("nothing here", "hf_x"), "nothing here");
  EXPECT_EQ(scrub("nothing here", ""), "nothing here");
}

}  // namespace
}  // namespace slip::hub
