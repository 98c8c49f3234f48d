// JSON as this server writes it: keys in the order they were put in, and no byte that is not UTF-8.
#pragma once

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/http/exchange.h"

namespace slip::server::api {

using Json = nlohmann::ordered_json;

inline std::string to_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A float as people write it: 0.95 and not the double nearest to it, 0.949999988079071.
inline double shortest(float value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  double read = 0;
  std::from_chars(text, written.ptr, read);
  return read;
}

/// Appends a server-sent event without a name.
inline void append_event(std::string& out, const Json& value) {
  out += "data: ";
  out += to_text(value);
  out += "\n\n";
}

/// Appends one with its name, which its data holds as "type".
inline void append_named_event(std::string& out, const Json& value) {
  out += "event: ";
  out += value.at("type").get_ref<const std::string&>();
  out += '\n';
  append_event(out, value);
}

inline void respond_json(http::Exchange& exchange, const Json& value, int status = 200) {
  exchange.respond(status, {{"Content-Type", "application/json"}}, to_text(value));
}

}  // namespace slip::server::api
