// Fuzzes the GIF decoder, in process.
#include "fuzz/media_picture.h"
#include "media/samples.h"

namespace test = slip::media::test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  slip::media::fuzz_picture(slip::media::decode_gif, {reinterpret_cast<const char*>(data), size});
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::string indices;
  for (int i = 0; i < 19 * 13; ++i) indices += static_cast<char>(i * 7 % 16);
  return {test::gif(19, 13, indices),
          test::gif(19, 13, indices, {.transparent = 3, .interlaced = true, .frames = 2}),
          test::gif(19, 13, indices, {.left = 5, .top = 6, .canvas_width = 30, .canvas_height = 40})};
}
