// Fuzzes the JPEG decoder, in process.
#include "fuzz/media_picture.h"
#include "media/samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  slip::media::fuzz_picture(slip::media::decode_jpeg, {reinterpret_cast<const char*>(data), size});
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  namespace test = slip::media::test;
  const slip::media::Pixels drawn = test::picture(19, 13);
  return {test::jpeg(drawn, {.app1 = test::exif(6)}), test::jpeg(drawn, {.progressive = true}),
          test::jpeg(drawn, {.grey = true}), test::jpeg(drawn, {.cmyk = true, .subsampled = false}),
          test::jpeg(test::picture(40, 30), {.restart_rows = 1})};
}
