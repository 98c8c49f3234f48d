#include "server/http/exchange.h"

#include "server/http/text.h"

namespace slip::server::http {

std::string_view Request::header(std::string_view name) const {
  return find_header(headers, name);
}

}  // namespace slip::server::http
