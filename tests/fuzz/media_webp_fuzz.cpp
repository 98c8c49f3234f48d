// Fuzzes the WebP decoder, in process. The container's length is made right first, as most changes of length
// would otherwise end there.
#include "fuzz/media_picture.h"
#include "media/samples.h"

namespace test = slip::media::test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  if (size >= 12) file = test::patched(file, 4, test::little32(static_cast<uint32_t>(size - 8)));
  slip::media::fuzz_picture(slip::media::decode_webp, file);
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const slip::media::Pixels drawn = test::picture(19, 13);
  const std::string lossless = test::webp(drawn);
  const std::string lossy = test::webp(drawn, test::WebpForm::kLossy);
  const auto canvas = [](char flags) { return flags + std::string("\0\0\0\x12\0\0\x0c\0\0", 9); };
  const auto [name, content] = test::webp_chunk(lossy);
  const std::string frame = std::string("\0\0\0\0\0\0\x12\0\0\x0c\0\0\x64\0\0\0", 16) + name +
                            test::little32(static_cast<uint32_t>(content.size())) + content +
                            std::string(content.size() % 2, '\0');
  return {lossless, lossy, test::webp_rgba(4, 4, std::string(64, 'a')),
          test::riff({{"VP8X", canvas(2)}, {"ANIM", std::string(6, '\0')}, {"ANMF", frame}, {"ANMF", frame}}),
          test::riff({{"VP8X", canvas(24)},
                      {"ALPH", '\0' + std::string(19 * 13, 'a')},
                      {name, content},
                      {"EXIF", test::exif(6, true, false)}})};
}
