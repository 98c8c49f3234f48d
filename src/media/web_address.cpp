#include "media/web_address.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace slip::media {
namespace {

struct Network4 {
  std::array<uint8_t, 4> address;
  int bits;
};

/// IPv4 networks that are not the public Internet.
constexpr Network4 kClosed4[] = {
    {{0, 0, 0, 0}, 8},        // this network
    {{10, 0, 0, 0}, 8},       // private
    {{100, 64, 0, 0}, 10},    // behind a provider's translation
    {{127, 0, 0, 0}, 8},      // this machine
    {{169, 254, 0, 0}, 16},   // this link; clouds answer with their keys there
    {{172, 16, 0, 0}, 12},    // private
    {{192, 0, 0, 0}, 24},     // protocol assignments
    {{192, 0, 2, 0}, 24},     // documentation
    {{192, 88, 99, 0}, 24},   // relays into 6to4
    {{192, 168, 0, 0}, 16},   // private
    {{198, 18, 0, 0}, 15},    // measurements
    {{198, 51, 100, 0}, 24},  // documentation
    {{203, 0, 113, 0}, 24},   // documentation
    {{224, 0, 0, 0}, 3},      // groups, reserved, broadcast
};

struct Network6 {
  std::array<uint8_t, 4> first;  // the first bytes of the address
  int bits;
};

/// What has been given out as public. Everything else is closed: ::1, fc00::/7, fe80::/10, groups, and IPv4
/// addresses written as IPv6 (::ffff:0:0/96, 64:ff9b::/96).
constexpr Network6 kGlobal6{{0x20, 0, 0, 0}, 3};

/// Exceptions in it, which lead elsewhere.
constexpr Network6 kClosed6[] = {
    {{0x20, 0x01, 0x00, 0x00}, 23},  // protocol assignments; Teredo's IPv4 in IPv6
    {{0x20, 0x01, 0x0d, 0xb8}, 32},  // documentation
    {{0x20, 0x02, 0x00, 0x00}, 16},  // 6to4: IPv4 in IPv6
    {{0x3f, 0xff, 0x00, 0x00}, 20},  // documentation
};

uint32_t first_four(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | bytes[3];
}

bool is_in(const uint8_t* address, const std::array<uint8_t, 4>& network, int bits) {
  return (first_four(address) ^ first_four(network.data())) >> (32 - bits) == 0;
}

bool is_public4(const sockaddr_in& address) {
  uint8_t bytes[4];
  std::memcpy(bytes, &address.sin_addr, sizeof bytes);
  return std::none_of(std::begin(kClosed4), std::end(kClosed4),
                      [&](const Network4& closed) { return is_in(bytes, closed.address, closed.bits); });
}

/// An address with a scope belongs to one of our own links.
bool is_public6(const sockaddr_in6& address) {
  const uint8_t* bytes = address.sin6_addr.s6_addr;
  if (address.sin6_scope_id != 0 || !is_in(bytes, kGlobal6.first, kGlobal6.bits)) return false;
  return std::none_of(std::begin(kClosed6), std::end(kClosed6),
                      [&](const Network6& closed) { return is_in(bytes, closed.first, closed.bits); });
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

bool is_public(const sockaddr* address, socklen_t size) {
  if (address == nullptr || size < sizeof(sa_family_t)) return false;
  if (address->sa_family == AF_INET && size >= sizeof(sockaddr_in)) {
    sockaddr_in copy;
    std::memcpy(&copy, address, sizeof copy);
    return is_public4(copy);
  }
  if (address->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    sockaddr_in6 copy;
    std::memcpy(&copy, address, sizeof copy);
    return is_public6(copy);
  }
  return false;
}

bool is_allowed_host(std::string_view host, std::span<const std::string> domains) {
  if (host.ends_with('.')) host.remove_suffix(1);
  if (domains.empty()) return true;
  return std::any_of(domains.begin(), domains.end(), [&](std::string_view domain) {
    if (domain.ends_with('.')) domain.remove_suffix(1);
    if (domain.empty() || host.size() < domain.size()) return false;
    const size_t before = host.size() - domain.size();
    return same(host.substr(before), domain) && (before == 0 || host[before - 1] == '.');
  });
}

}  // namespace slip::media
