// Fuzzes the PNG decoder, in process. Check sums are made right first: otherwise nearly every input would
// fail at one.
#include "fuzz/media_picture.h"
#include "media/samples.h"

namespace test = slip::media::test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  slip::media::fuzz_picture(slip::media::decode_png,
                            test::with_right_sums({reinterpret_cast<const char*>(data), size}));
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string samples(19 * 13 * 8, 'a');
  const std::string colours = test::png_chunk("PLTE", "abcdefghi") + test::png_chunk("tRNS", "ab");
  return {test::png(test::picture(19, 13)),
          test::png(19, 13, samples, {6, 8, true}, test::png_chunk("eXIf", test::exif(6, true, false))),
          test::png(19, 13, samples, {6, 16}),
          test::png(19, 13, samples, {0, 1}, test::png_chunk("gAMA", std::string(4, '\1'))),
          test::png(19, 13, std::string(19 * 13, '\1'), {3, 8}, colours),
          test::png(19, 13, samples, {4, 16, true}, test::png_chunk("acTL", std::string(8, '\1')))};
}
