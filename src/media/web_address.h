// Which addresses on the network a media URL may reach: public ones. A server that fetches what strangers
// name must not be sent to itself, to its neighbours, or to the address where clouds keep their keys.
//
// The check belongs where a socket is opened (libcurl's CURLOPT_OPENSOCKETFUNCTION), on the address that is
// really connected to. Names, redirects and parsers can lie; a sockaddr cannot.
#pragma once

#include <sys/socket.h>

#include <span>
#include <string>
#include <string_view>

namespace slip::media {

/// True for IPv4 and IPv6 addresses of the public Internet, false for all else and for what cannot be read.
bool is_public(const sockaddr* address, socklen_t size);

/// True when `host` is one of the domains or lies below one; every host when there are none. Letters of any
/// case; a final dot is ignored.
bool is_allowed_host(std::string_view host, std::span<const std::string> domains);

}  // namespace slip::media
