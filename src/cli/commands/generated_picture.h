// Two plain pictures as PNG files in memory, for whoever wants to know whether a model really sees.
#pragma once

#include <cstddef>
#include <vector>

namespace slip::cli {

/// In the middle of a white ground.
enum class Shape { kRedCircle, kBlueSquare };

std::vector<std::byte> generated_picture(Shape shape);

}  // namespace slip::cli
