// Request line and headers: whatever comes, the parser accepts it or names a refusal, cut anywhere it says the same, and
// what it accepts has one framing, one host and a path that cannot climb.
#include <algorithm>
#include <string_view>

#include "fuzz/target.h"
#include "server/http/access.h"
#include "server/http/request_parser.h"
#include "server/http/target.h"
#include "server/http/text.h"

using namespace slip::server::http;

namespace {

using State = RequestParser::State;

int count_of(const std::vector<Header>& headers, std::string_view name) {
  return static_cast<int>(std::count_if(headers.begin(), headers.end(),
                                        [&](const Header& header) { return same_word(header.name, name); }));
}

void check_text(std::string_view text) {
  for (const char c : text) fuzz_check(c != '\r' && c != '\n' && c != '\0');
}

void check_path(const Target& target) {
  fuzz_check(is_utf8(target.path));
  fuzz_check(target.path == "*" || target.path.front() == '/');
  const std::string path = target.path.back() == '/' ? target.path : target.path + "/";
  for (const char* climbing : {"/../", "/./", "//", "\\"})
    fuzz_check(path.find(climbing) == std::string::npos);
  check_text(target.path);
}

void check_head(const RequestHead& head, const Limits& limits) {
  check_text(head.method + head.target);
  fuzz_check(head.headers.size() <= limits.headers);
  size_t bytes = 0;
  for (const Header& header : head.headers) {
    check_text(header.name + header.value);
    bytes += header.name.size() + header.value.size();
  }
  fuzz_check(bytes <= limits.head_bytes);
  fuzz_check(count_of(head.headers, "host") <= 1);
  fuzz_check(count_of(head.headers, "content-length") + count_of(head.headers, "transfer-encoding") <= 1);
  fuzz_check(head.chunked == (count_of(head.headers, "transfer-encoding") == 1));
  auto target = parse_target(head.target);
  if (const auto* found = std::get_if<Target>(&target)) check_path(*found);
  static const Access access{Options{}};
  const AccessQuestion question{head.method, "/", "", head.headers, true, "127.0.0.1"};
  access.refused_place(question);
  fuzz_check(access.key_for(question).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  Limits limits;
  limits.head_bytes = 2048;
  limits.headers = 20;
  RequestParser whole(limits), cut(limits);
  const size_t used = whole.feed(input);
  fuzz_check(used <= size);
  const size_t at = size == 0 ? 0 : data[0] % size;
  size_t used_cut = cut.feed(input.substr(0, at));
  if (used_cut == at) used_cut += cut.feed(input.substr(at));
  fuzz_check(cut.state() == whole.state() && used_cut == used);
  if (whole.state() == State::kHeadDone) {
    check_head(whole.head(), limits);
    fuzz_check(whole.head().target == cut.head().target &&
               whole.head().headers.size() == cut.head().headers.size());
  } else if (whole.state() == State::kFailed) {
    fuzz_check(whole.failure().status >= 400 && whole.failure().status == cut.failure().status);
    fuzz_check(!whole.failure().message.empty());
  } else {
    fuzz_check(used == size);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
          "POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: localhost:8080\r\nContent-Length: 12\r\nExpect: "
          "100-continue\r\n"
          "Authorization: Bearer key\r\n\r\n",
          "POST /v1/models/a%2Fb HTTP/1.1\r\nHost: [::1]:8080\r\nTransfer-Encoding: chunked\r\nConnection: "
          "close, x\r\n"
          "Origin: http://localhost:3000\r\nSec-Fetch-Site: same-site\r\n\r\n",
          "OPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
          "\r\nHEAD http://localhost/%2e%2e/a HTTP/1.1\r\nHost:\tlocalhost \r\nX-Empty:\r\n folded\r\n\r\n"};
}
