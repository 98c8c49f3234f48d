// Fuzzes what a request says about its media before any decoder runs: kinds by first bytes, EXIF blocks,
// base64 and data: URLs. The first byte chooses.
#include "fuzz/target.h"
#include "media/base64.h"
#include "media/orientation.h"
#include "media/refused.h"
#include "media/samples.h"
#include "media/url.h"

namespace {

using namespace slip::media;

void check_base64(std::string_view text) {
  const auto strict = decode_base64(text, Base64::kStrict);
  const auto lenient = decode_base64(text, Base64::kLenient);
  // Whatever is base64 to the letter means the same to both.
  fuzz_check(!strict || (lenient && *strict == *lenient));
  fuzz_check(!lenient || lenient->size() <= text.size() / 4 * 3 + 2);
}

void check_url(std::string_view url) {
  constexpr Limits kSmall{.bytes = 100};
  try {
    const DataUrl parsed = parse_data_url(url, "fuzz", kSmall);
    fuzz_check(url_kind(url) == UrlKind::kData && !parsed.bytes.empty() &&
               parsed.bytes.size() <= kSmall.bytes);
  } catch (const Refused&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Bytes bytes = test::bytes_of(text);
  switch (data[0] % 4) {
    case 0: check_base64(text); break;
    case 1: check_url(text); break;
    case 2: {
      const int orientation = orientation_of(bytes);
      fuzz_check(orientation >= 1 && orientation <= 8);
      break;
    }
    default: fuzz_check(sniff(bytes) < Kind::kCount && !name_of(sniff(bytes)).empty());
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string url = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";
  return {'\0' + std::string("Zm9vYmFyZm9vYg=="),
          '\1' + url,
          '\1' + std::string("data:text/plain,a%20b"),
          '\2' + test::exif(6),
          '\2' + test::exif(8, true, false),
          '\3' + test::png(test::picture(2, 2)),
          '\3' + std::string("\0\0\0\x18"
                             "ftypmif1\0\0\0\0mif1heic",
                             24),
          '\3' + std::string("<?xml?><svg/>")};
}
