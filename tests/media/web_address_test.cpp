#include "media/web_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstring>
#include <vector>

namespace slip::media {
namespace {

bool reaches(const char* text, uint32_t scope = 0) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  if (::inet_pton(AF_INET, text, &v4.sin_addr) == 1)
    return is_public(reinterpret_cast<sockaddr*>(&v4), sizeof v4);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_scope_id = scope;
  EXPECT_EQ(::inet_pton(AF_INET6, text, &v6.sin6_addr), 1) << text;
  return is_public(reinterpret_cast<sockaddr*>(&v6), sizeof v6);
}

TEST(WebAddress, no_address_of_a_closed_network_gets_through) {
  for (const char* text : {"0.0.0.0",
                           "0.255.255.255",
                           "10.0.0.1",
                           "10.255.255.255",
                           "100.64.0.0",
                           "100.127.255.255",
                           "127.0.0.1",
                           "127.255.255.254",
                           "169.254.0.1",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.1",
                           "192.0.0.171",
                           "192.0.2.1",
                           "192.88.99.1",
                           "192.168.0.1",
                           "192.168.255.255",
                           "198.18.0.1",
                           "198.19.255.255",
                           "198.51.100.7",
                           "203.0.113.9",
                           "224.0.0.1",
                           "239.255.255.255",
                           "240.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::7f00:1",
                           "fc00::1",
                           "fd00:ec2::254",
                           "fdff::1",
                           "fe80::1",
                           "febf::1",
                           "fec0::1",
                           "ff02::1",
                           "ff0e::1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::ffff:8.8.8.8",
                           "64:ff9b::7f00:1",
                           "64:ff9b::808:808",
                           "64:ff9b:1::1",
                           "2002:7f00:1::1",
                           "2002:a00:1::",
                           "2001::1",
                           "2001:0:7f00:1::",
                           "2001:2::1",
                           "2001:10::1",
                           "2001:20::1",
                           "2001:db8::1",
                           "3fff::1",
                           "100::1",
                           "5f00::1",
                           "1::1",
                           "4000::1"}) {
    EXPECT_FALSE(reaches(text)) << text;
  }
}

TEST(WebAddress, public_addresses_do_also_at_the_edges_of_closed_networks) {
  for (const char* text : {"1.0.0.0",         "8.8.8.8",
                           "9.255.255.255",   "11.0.0.0",
                           "100.63.255.255",  "100.128.0.0",
                           "126.255.255.255", "128.0.0.0",
                           "169.253.255.255", "169.255.0.0",
                           "172.15.255.255",  "172.32.0.0",
                           "191.255.255.255", "192.0.1.0",
                           "192.0.3.0",       "192.167.255.255",
                           "192.169.0.0",     "198.17.255.255",
                           "198.20.0.0",      "223.255.255.255",
                           "2001:200::1",     "2001:4860:4860::8888",
                           "2003::1",         "2606:4700::1",
                           "2a00::1",         "3ffe::1"}) {
    EXPECT_TRUE(reaches(text)) << text;
  }
}

TEST(WebAddress, what_is_no_internet_address_is_closed) {
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  std::strcpy(local.sun_path, "/run/docker.sock");
  EXPECT_FALSE(is_public(reinterpret_cast<sockaddr*>(&local), sizeof local));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(0x08080808);
  EXPECT_TRUE(is_public(reinterpret_cast<sockaddr*>(&v4), sizeof v4));
  EXPECT_FALSE(is_public(reinterpret_cast<sockaddr*>(&v4), sizeof v4 - 1));
  EXPECT_FALSE(is_public(reinterpret_cast<sockaddr*>(&v4), 0));
  EXPECT_FALSE(is_public(nullptr, sizeof v4));
  EXPECT_FALSE(reaches("2606:4700::1", 2));  // with the number of a link
}

TEST(WebAddress, hosts_are_allowed_by_whole_labels) {
  const std::vector<std::string> domains{"example.com", "Cdn.Example.org."};
  for (const char* host : {"example.com", "EXAMPLE.com.", "a.b.example.com", "cdn.example.org"}) {
    EXPECT_TRUE(is_allowed_host(host, domains)) << host;
  }
  for (const char* host : {"notexample.com", "example.com.evil.net", "example.org", "", ".", "com"}) {
    EXPECT_FALSE(is_allowed_host(host, domains)) << host;
  }
  EXPECT_TRUE(is_allowed_host("anything.net", {}));
}

}  // namespace
}  // namespace slip::media
