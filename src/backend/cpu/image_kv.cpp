#include "backend/cpu/image_kv.h"

#include <cstring>

#include "base/check.h"
#include "base/float16.h"

namespace slip::backend::cpu {

namespace {

constexpr int kLanes = 32;  // of a panel
constexpr int kCell = 4;    // bytes of one step of one lane: two bf16 or one float

int64_t panels_for(int64_t count) {
  return (count + kLanes - 1) / kLanes;
}

}  // namespace

ImageKv::ImageKv(Carver& carver, int heads, int head_dim, int max_patches, bool narrow)
    : heads_(heads), head_dim_(head_dim), narrow_(narrow) {
  value_panels_ = static_cast<int>(panels_for(head_dim));
  const int rest = head_dim % kLanes;
  last_lanes_ = rest > 0 && rest <= kLanes / 2 ? kLanes / 2 : kLanes;
  const auto keys = static_cast<size_t>(panels_for(max_patches) * kLanes);
  const auto dims = static_cast<size_t>(value_panels_ * kLanes);
  const size_t element = narrow ? sizeof(uint16_t) : sizeof(float);
  keys_ =
      carver.allocate<std::byte>(static_cast<size_t>(heads) * keys * static_cast<size_t>(head_dim) * element);
  values_ = carver.allocate<std::byte>(static_cast<size_t>(heads) * keys * dims * element);
}

std::byte* ImageKv::key_panel(int head, int panel) const {
  return keys_ + (head * key_panels_ + panel) * (head_dim_ / columns()) * kLanes * kCell;
}

std::byte* ImageKv::value_panel(int head, int panel) const {
  return values_ + (int64_t{head} * value_panels_ + panel) * value_steps_ * kLanes * kCell;
}

void ImageKv::resize(int patches) {
  patches_ = patches;
  key_panels_ = panels_for(patches);
  value_steps_ = key_panels_ * kLanes / columns();
  const int64_t whole_steps = patches / columns();
  if (whole_steps * columns() == patches) return;
  // The last key has none beside it. Its weight will be 0, but what 0 is multiplied with must be a number.
  for (int head = 0; head < heads_; ++head) {
    for (int panel = 0; panel < value_panels_; ++panel) {
      const int64_t step_bytes = int64_t{lanes(panel)} * kCell;
      std::memset(value_panel(head, panel) + whole_steps * step_bytes, 0, static_cast<size_t>(step_bytes));
    }
  }
}

void ImageKv::put(int patch, const float* keys, const float* values) const {
  const int joined = columns(), lane = patch % kLanes;
  const auto store = [&](std::byte* at, int column, float value) {
    if (narrow_) {
      const Bf16 bits = to_bf16(value);
      std::memcpy(at + column * 2, &bits, sizeof(bits));
    } else {
      std::memcpy(at, &value, sizeof(value));
    }
  };
  for (int head = 0; head < heads_; ++head) {
    const float* key = keys + head * head_dim_;
    const float* value = values + head * head_dim_;
    std::byte* at = key_panel(head, patch / kLanes) + lane * kCell;
    for (int d = 0; d < head_dim_; ++d) store(at + d / joined * kLanes * kCell, d % joined, key[d]);
    for (int panel = 0; panel < value_panels_; ++panel) {
      std::byte* to = value_panel(head, panel) + int64_t{patch / joined} * lanes(panel) * kCell;
      for (int d = panel * kLanes; d < head_dim_ && d < (panel + 1) * kLanes; ++d) {
        store(to + d % kLanes * kCell, patch % joined, value[d]);
      }
    }
  }
}

DotPanels ImageKv::keys(int head, int first, int count) const {
  SLIP_CHECK(first % kLanes == 0 && first + count <= patches_);
  return {.data = key_panel(head, first / kLanes),
          .stride = int64_t{head_dim_ / columns()} * kLanes * kCell,
          .panels = static_cast<int>(panels_for(count)),
          .steps = head_dim_ / columns()};
}

DotPanels ImageKv::values(int head, int panel, int first, int count) const {
  SLIP_CHECK(first % columns() == 0 && first + count <= patches_);
  return {.data = value_panel(head, panel) + int64_t{first / columns()} * lanes(panel) * kCell,
          .panels = 1,
          .last_lanes = lanes(panel),
          .steps = (count + columns() - 1) / columns()};
}

}  // namespace slip::backend::cpu
