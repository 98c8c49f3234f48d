// Chunked bodies: whatever comes and however it is cut, the same body or the same refusal, never more bytes than the
// limit, and nothing kept that was not sent.
#include <string_view>

#include "fuzz/target.h"
#include "server/http/request_parser.h"

using namespace slip::server::http;

namespace {

using State = RequestParser::State;

RequestParser after_head(const Limits& limits) {
  RequestParser parser(limits);
  parser.feed("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  parser.read_body();
  fuzz_check(parser.state() == State::kBody);
  return parser;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  Limits limits;
  limits.body_bytes = 300;
  RequestParser whole = after_head(limits), pieces = after_head(limits);
  const size_t used = whole.feed(input);
  const size_t step = size == 0 ? 1 : 1 + data[size - 1] % 9;
  size_t fed = 0;
  while (fed < size && pieces.state() == State::kBody) {
    const std::string_view piece = input.substr(fed, step);
    const size_t taken = pieces.feed(piece);
    fuzz_check(taken <= piece.size());
    fed += taken;
    if (taken < piece.size()) break;
  }
  fuzz_check(whole.state() == pieces.state());
  fuzz_check(whole.body_bytes() <= limits.body_bytes && whole.body_bytes() <= size);
  if (whole.state() == State::kDone) {
    fuzz_check(used == fed);
    fuzz_check(whole.take_body() == pieces.take_body());
  } else if (whole.state() == State::kFailed) {
    fuzz_check(whole.failure().status == pieces.failure().status);
  } else {
    fuzz_check(used == size);
    whole.end_of_input();
    fuzz_check(whole.failure().status == 400);
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"5\r\nhello\r\n0\r\n\r\n",
          "1\r\na\r\n00A;name=\"va\\\"lue\";x\r\n0123456789\r\n000\r\nX-Trailer: t\r\nY:\r\n\r\nGET /",
          "ff\r\n" + std::string(255, 'x') + "\r\n2d\r\n" + std::string(45, 'y') + "\r\n1\r\n",
          "ffffffffffffffff\r\nx", "3 ; a = b\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n"};
}
