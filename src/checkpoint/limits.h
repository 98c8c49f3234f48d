// The largest sizes a config.json may ask for: far above any published model, and low enough that rows *
// columns * 8 bytes stays inside 63 bits everywhere and every single matrix extent inside 31.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slip::checkpoint {

constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostHidden = 1 << 17;
constexpr int64_t kMostHeads = 4096;
constexpr int64_t kMostHeadDim = 8192;
constexpr int64_t kMostIntermediate = 1 << 20;
constexpr int64_t kMostVocab = 1 << 24;
constexpr int64_t kMostPerLayer = 1 << 16;
constexpr int64_t kMostExperts = 4096;
constexpr int64_t kMostExpertIntermediate = 1 << 18;
constexpr int64_t kMostPositions = 1 << 28;

constexpr size_t kLargestConfig = size_t{16} << 20;  // bytes of a config.json

}  // namespace slip::checkpoint
