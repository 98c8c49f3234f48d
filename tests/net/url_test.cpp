#include "net/url.h"

#include <gtest/gtest.h>

namespace slip::net {
namespace {

std::string joined(const char* base, const char* location) {
  const auto url = join_url(*parse_url(base), location);
  return url ? url->text : "";
}

TEST(Urls, only_http_and_https_are_urls) {
  for (const char* text : {"file:///etc/passwd", "ftp://x/y", "javascript:alert(1)", "data:,x", "//x/y", "x",
                           "", "http://", "http:// x/", "http://a\nb/", "http://[::1", "gopher://x"}) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
  EXPECT_FALSE(parse_url("http://x/" + std::string(20000, 'a')));
  EXPECT_TRUE(parse_url("http://[::1]:80/"));
}

TEST(Urls, an_origin_is_scheme_host_and_port) {
  EXPECT_EQ(parse_url("https://HuggingFace.co/x")->origin(), "https://huggingface.co:443");
  EXPECT_EQ(parse_url("http://x/")->origin(), "http://x:80");
  EXPECT_EQ(parse_url("http://user:pass@x:8080/y?z")->origin(), "http://x:8080");
  EXPECT_NE(parse_url("http://huggingface.co.evil/")->origin(),
            parse_url("http://huggingface.co/")->origin());
  EXPECT_EQ(parse_url("http://huggingface.co@evil/")->host, "evil");
}

TEST(Urls, what_is_shown_has_no_secrets) {
  EXPECT_EQ(parse_url("https://user:secret@x/a/b?Signature=secret#secret")->shown(), "https://x/a/b");
  EXPECT_EQ(parse_url("http://127.0.0.1:99/a")->shown(), "http://127.0.0.1:99/a");
}

TEST(Urls, a_location_is_joined_as_a_browser_would) {
  EXPECT_EQ(joined("https://h/a/b?q=1", "/api/x?etag=%22ab%22"), "https://h/api/x?etag=%22ab%22");
  EXPECT_EQ(joined("https://h/a/b", "c"), "https://h/a/c");
  EXPECT_EQ(joined("https://h/a", "http://other:81/b?x=a%2Fb"), "http://other:81/b?x=a%2Fb");
  EXPECT_EQ(joined("https://h/a", "//other/b"), "https://other/b");
  EXPECT_EQ(joined("https://h/a", "file:///etc/passwd"), "");
  EXPECT_EQ(joined("https://h/a", ""), "");
}

TEST(Urls, paths_are_encoded_byte_by_byte) {
  EXPECT_EQ(encode_path("a b/c%d/\xc3\xa9?#"), "a%20b/c%25d/%C3%A9%3F%23");
  EXPECT_EQ(encode_segment("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(encode_path("model-00001_of.safetensors~"), "model-00001_of.safetensors~");
}

}  // namespace
}  // namespace slip::net
