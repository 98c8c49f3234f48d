#include "media/url.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "media/base64.h"
#include "media/refused.h"

namespace slip::media {
namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string decoded(std::string_view text, Base64 form) {
  const auto bytes = decode_base64(text, form);
  return bytes ? text_of(*bytes) : "?";
}

TEST(Base64, the_examples_of_the_rfc_are_decoded_in_both_forms) {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"Zg==", "f"},
                                                          {"Zm8=", "fo"},
                                                          {"Zm9v", "foo"},
                                                          {"Zm9vYg==", "foob"},
                                                          {"Zm9vYmE=", "fooba"},
                                                          {"Zm9vYmFy", "foobar"},
                                                          {"+/+/", "\xfb\xff\xbf"}};
  for (const auto& [text, want] : examples) {
    EXPECT_EQ(decoded(text, Base64::kStrict), want);
    EXPECT_EQ(decoded(text, Base64::kLenient), want);
  }
}

TEST(Base64, what_clients_really_send_is_taken_only_when_lenient) {
  for (const char* text : {"Zm9v\r\nYmFy\n", "Zm9v YmE", " Zg", "-_-_", "Zh=="}) {
    EXPECT_EQ(decoded(text, Base64::kStrict), "?") << text;
    EXPECT_NE(decoded(text, Base64::kLenient), "?") << text;
  }
  EXPECT_EQ(decoded("Zm9v\nYmE", Base64::kLenient), "fooba");
  EXPECT_EQ(decoded("-_-_", Base64::kLenient), "\xfb\xff\xbf");
}

TEST(Base64, what_is_left_over_is_an_error_in_both_forms) {
  for (const char* text : {"Z", "Zm9vY", "Zg=", "Zg===", "=", "====", "Zg==Zg==", "Zm9v=", "Zm9v*mFy",
                           "Zm9vYmFy\x80", "Zm8==", "Zg=o"}) {
    EXPECT_EQ(decoded(text, Base64::kStrict), "?") << text;
    EXPECT_EQ(decoded(text, Base64::kLenient), "?") << text;
  }
}

Fault fault_of_data(std::string_view url, const Limits& limits = {}) {
  try {
    parse_data_url(url, "x", limits);
  } catch (const Refused& refused) {
    return refused.fault();
  }
  return Fault::kNone;
}

TEST(Url, schemes_are_told_apart_in_any_case) {
  EXPECT_EQ(url_kind("data:,a"), UrlKind::kData);
  EXPECT_EQ(url_kind("DATA:image/png;base64,"), UrlKind::kData);
  EXPECT_EQ(url_kind("File:///a"), UrlKind::kFile);
  EXPECT_EQ(url_kind("https://example.com/a.png"), UrlKind::kWeb);
  EXPECT_EQ(url_kind("HTTP://example.com"), UrlKind::kWeb);
  for (const char* other : {"", "data", "a.png", "/etc/passwd", "ftp://a", "gopher://a", "httpx://a",
                            " data:,a", "javascript:1"}) {
    EXPECT_EQ(url_kind(other), UrlKind::kOther) << other;
  }
}

TEST(Url, data_urls_carry_their_bytes) {
  EXPECT_EQ(text_of(parse_data_url("data:image/PNG;base64,Zm9v", "x").bytes), "foo");
  EXPECT_EQ(parse_data_url("data:image/PNG;base64,Zm9v", "x").media_type, "image/png");
  EXPECT_EQ(text_of(parse_data_url("data:;base64,Zm9v", "x").bytes), "foo");
  EXPECT_EQ(text_of(parse_data_url("data:image/png;charset=utf-8;BASE64 ,Zm9v", "x").bytes), "foo");
  EXPECT_EQ(text_of(parse_data_url("data:image/png;base64,Zm9v%0AYg%3D%3D", "x").bytes), "foob");
  EXPECT_EQ(text_of(parse_data_url("data:text/plain,a%20b,c%", "x").bytes), "a b,c%");
}

TEST(Url, data_urls_that_are_none_are_refused) {
  EXPECT_EQ(fault_of_data("data:image/png;base64"), Fault::kBadUrl);
  EXPECT_EQ(fault_of_data("https://example.com/,"), Fault::kBadUrl);
  EXPECT_EQ(fault_of_data("data:image/png;base64,"), Fault::kEmpty);
  EXPECT_EQ(fault_of_data("data:,"), Fault::kEmpty);
  EXPECT_EQ(fault_of_data("data:image/png;base64,Zm9v!"), Fault::kBadBase64);
  // Frames joined by commas, as one server takes them: never an endless list here.
  EXPECT_EQ(fault_of_data("data:video/jpeg;base64,Zm9v,Zm9v"), Fault::kBadBase64);
  EXPECT_EQ(fault_of_data("data:;base64,Zm9vYmFy", {.bytes = 5}), Fault::kTooManyBytes);
  EXPECT_EQ(fault_of_data("data:;base64,Zm9vYmFy", {.bytes = 6}), Fault::kNone);
  EXPECT_EQ(fault_of_data("data:;base64," + std::string(30, '*'), {.bytes = 6}), Fault::kTooManyBytes);
}

class FileUrl : public testing::Test {
 protected:
  void SetUp() override {
    top_ = std::filesystem::canonical(std::filesystem::temp_directory_path()) /
           ("slip-url-" + std::to_string(::getpid()));
    std::filesystem::create_directories(top_ / "media/sub");
    std::filesystem::create_directories(top_ / "media-other");
    write("media/a b.png", "inside");
    write("media/sub/c.png", "below");
    write("media/empty.png", "");
    write("media-other/d.png", "outside");
    write("secret", "outside");
    std::filesystem::create_symlink(top_ / "secret", top_ / "media/link-out");
    std::filesystem::create_symlink("sub/c.png", top_ / "media/link-in");
    std::filesystem::create_directory_symlink(top_, top_ / "media/folder-out");
  }
  void TearDown() override { std::filesystem::remove_all(top_); }
  void write(const std::string& name, const std::string& content) { std::ofstream(top_ / name) << content; }

  /// What is read, or the fault in angle brackets.
  std::string read(const std::string& url) const {
    try {
      return text_of(read_file_url(url, top_ / "media"));
    } catch (const Refused& refused) {
      return refused.fault() == Fault::kUrlNotAllowed ? "<not allowed>" : "<other>";
    }
  }
  std::filesystem::path top_;
};

TEST_F(FileUrl, files_below_the_folder_are_read_by_whole_and_relative_paths) {
  EXPECT_EQ(read("file://" + (top_ / "media/a%20b.png").string()), "inside");
  EXPECT_EQ(read("file://localhost" + (top_ / "media/sub/c.png").string()), "below");
  EXPECT_EQ(read("file:" + (top_ / "media/sub/c.png").string()), "below");
  EXPECT_EQ(read("file://sub/c.png"), "below");
  EXPECT_EQ(read("FILE://sub/../a b.png?x=1#y"), "inside");
  EXPECT_EQ(read("file://link-in"), "below");
}

TEST_F(FileUrl, nothing_outside_is_read_however_it_is_named) {
  for (const std::string& url :
       {std::string("file:///etc/passwd"), "file://" + (top_ / "secret").string(),
        std::string("file://../secret"), std::string("file://sub/../../secret"),
        std::string("file://%2e%2e/secret"), std::string("file://link-out"),
        std::string("file://folder-out/secret"), "file://" + (top_ / "media-other/d.png").string(),
        std::string("file://missing.png"), std::string("file://sub"), std::string("file://"),
        std::string("file:///"), "file://" + (top_ / "media").string(), std::string("file://a%00b.png"),
        std::string("file:///dev/zero"), std::string("file://host/share/a.png"),
        std::string("file:///proc/self/environ"), std::string("http://a/b")}) {
    EXPECT_EQ(read(url), "<not allowed>") << url;
  }
}

TEST_F(FileUrl, without_a_folder_no_file_is_read) {
  EXPECT_THROW(read_file_url("file://" + (top_ / "media/a b.png").string(), ""), Refused);
  EXPECT_EQ(read("file://empty.png"), "<other>");
}

}  // namespace
}  // namespace slip::media
