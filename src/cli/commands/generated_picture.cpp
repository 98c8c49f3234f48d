#include "cli/commands/generated_picture.h"

#include <png.h>

#include <array>
#include <cstdint>

#include "base/check.h"

namespace slip::cli {
namespace {

constexpr int kSide = 384;
constexpr int kRadius = 60;

constexpr std::array<uint8_t, 3> kGround{250, 250, 250}, kRed{214, 40, 40}, kBlue{38, 84, 214};

bool inside(Shape shape, int dx, int dy) {
  if (shape == Shape::kRedCircle) return dx * dx + dy * dy < kRadius * kRadius;
  return dx >= -kRadius && dx < kRadius && dy >= -kRadius && dy < kRadius;
}

}  // namespace

std::vector<std::byte> generated_picture(Shape shape) {
  std::vector<uint8_t> rgb;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const bool painted = inside(shape, x - kSide / 2, y - kSide / 2);
      const auto& colour = !painted ? kGround : shape == Shape::kRedCircle ? kRed : kBlue;
      rgb.insert(rgb.end(), colour.begin(), colour.end());
    }
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = kSide;
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  SLIP_CHECK(png_image_write_get_memory_size(image, size, 0, rgb.data(), 0, nullptr));
  std::vector<std::byte> file(size);
  SLIP_CHECK(png_image_write_to_memory(&image, file.data(), &size, 0, rgb.data(), 0, nullptr));
  file.resize(size);
  return file;
}

}  // namespace slip::cli
