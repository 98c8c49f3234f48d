#include "server/http/response.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "server/http/text.h"

namespace slip::server::http {

namespace {

/// What the server writes by itself; the handler's word on these would contradict the bytes that follow.
bool is_ours(std::string_view name) {
  return same_word(name, "content-length") || same_word(name, "transfer-encoding") ||
         same_word(name, "connection");
}

void append_clean(std::string& to, std::string_view text) {
  for (const char c : text) to += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
}

void append_header(std::string& to, std::string_view name, std::string_view value) {
  append_clean(to, name);
  to += ": ";
  append_clean(to, value);
  to += "\r\n";
}

}  // namespace

bool has_no_body(int status) {
  return status < 200 || status == 204 || status == 304;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 529: return "Overloaded";
    default: return status < 400 ? "OK" : "Error";
  }
}

std::string http_date(std::time_t time) {
  static constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays.at(utc.tm_wday), utc.tm_mday,
                     kMonths.at(utc.tm_mon), utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

std::string response_head(const ResponseHead& head) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", head.status, reason_phrase(head.status));
  text.reserve(512);
  for (const auto* list : {&head.headers, &head.more})
    for (const Header& header : *list)
      if (!is_ours(header.name)) append_header(text, header.name, header.value);
  if (!has_header(head.headers, "date")) append_header(text, "Date", http_date(std::time(nullptr)));
  if (!head.id.empty() && !has_header(head.headers, "x-request-id"))
    append_header(text, "x-request-id", head.id);
  if (head.content_length) {
    append_header(text, "Content-Length", std::to_string(*head.content_length));
  } else if (head.chunked) {
    append_header(text, "Transfer-Encoding", "chunked");
  }
  if (head.close) {
    append_header(text, "Connection", "close");
  } else if (!head.http11) {
    append_header(text, "Connection", "keep-alive");
  }
  text += "\r\n";
  return text;
}

void append_chunk(std::string& to, std::string_view data) {
  if (data.empty()) return;
  fmt::format_to(std::back_inserter(to), "{:x}\r\n", data.size());
  to += data;
  to += "\r\n";
}

}  // namespace slip::server::http
