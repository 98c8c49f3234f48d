#include "reference/follow.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace slip::reference {
namespace {

// Half the distance of neighbours in bf16 (8 bits of significand) around x.
double half_unit(double x) {
  return x == 0 ? 0 : std::ldexp(1.0, std::ilogb(x) - 8);
}

}  // namespace

Follower::Follower(Forward& forward, const model::Config& config, Read read) : read_(std::move(read)) {
  forward.store = [this, &config](int layer, Row& keys, Row& values) {
    if (config.layers[static_cast<size_t>(layer)].k_is_v)
      return take_over(values, read_(layer, 0, position_));
    take_over(keys, read_(layer, 0, position_));
    take_over(values, read_(layer, 1, position_));
  };
}

void Follower::take_over(Row& own, Row stored) {
  double squares = 0;
  for (const float x : own) squares += static_cast<double>(x) * x;
  const double size = std::sqrt(squares / static_cast<double>(own.size()));
  if (stored.size() != own.size()) worst_ = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(own.size(), stored.size()); ++i) {
    const double off = std::abs(static_cast<double>(stored[i]) - own[i]);
    const double beyond = (off - half_unit(std::max(std::abs(stored[i]), std::abs(own[i])))) / size;
    worst_ = std::isnan(beyond) ? std::numeric_limits<double>::infinity() : std::max(worst_, beyond);
  }
  own = std::move(stored);
}

}  // namespace slip::reference
