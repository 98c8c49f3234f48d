// fit(): the size an image is resized to, and the soft tokens it becomes, for a budget of soft tokens. Pure
// arithmetic without pixels, so that admission and the page can count an image before anything is decoded.
//
// The model reads blocks of 48 x 48 pixels (3 x 3 patches of 16), one soft token each. An image is scaled, up
// as well as down, to the largest size of its shape that fills the budget, and both sides are cut down to
// whole blocks. The factor is computed in double, as Hugging Face's processor does.
//
// Invariant: both sides are positive multiples of 48, and soft_tokens <= budget.
#pragma once

#include <array>
#include <cstdint>

namespace slip::media {

inline constexpr int kPatchSide = 16;
inline constexpr int kBlockSide = 48;
inline constexpr std::array<int, 5> kBudgets{70, 140, 280, 560, 1120};
inline constexpr int kDefaultBudget = 280;
inline constexpr int kLargestBudget = 1120;

/// Stands for a budget: the smallest that does not shrink the image, or the largest where every one would.
inline constexpr int kAutoBudget = 0;

struct Fit {
  int width = 0;  // in pixels, after resizing
  int height = 0;
  int budget = 0;  // as asked for, or what kAutoBudget chose
  int soft_tokens = 0;
  int patches = 0;      // of 16 x 16 pixels
  bool shrunk = false;  // a side became shorter: detail is lost
  bool operator==(const Fit&) const = default;
};

/// True for the five budgets the models were trained with, and for kAutoBudget.
bool is_budget(int budget);

/// The width and height are those a person sees (after EXIF orientation), both positive.
Fit fit(int width, int height, int budget);

}  // namespace slip::media
