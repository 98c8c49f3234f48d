// The pixels that Hugging Face's processors give: bit for bit, from files to patches.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "media/decoders.h"
#include "media/patches.h"
#include "media/resize.h"

namespace slip::media {
namespace {

ImagePatches patches_of(const std::string& path, int budget, PatchSide side) {
  const MappedFile file(path);
  Decoded decoded = decode_picture(file.bytes(), {});
  const Fit size = fit(decoded.pixels.width, decoded.pixels.height, budget);
  const Pixels resized = resize(std::move(decoded.pixels), size.width, size.height);
  return cut_patches(resized.rgb.get(), resized.width, resized.height, side);
}

/// The expected tensors of a case, by name.
class Expected {
 public:
  explicit Expected(const std::string& folder)
      : facts(nlohmann::json::parse(read_text_file(folder + "/expected.json"))),
        file_(folder + "/expected.safetensors") {
    for (auto& entry : checkpoint::parse_header(file_.bytes(), file_.bytes().size(), "expected")) {
      entries_[entry.name] = entry;
    }
  }
  template <typename T>
  std::vector<T> read(const std::string& name) const {
    const checkpoint::HeaderEntry& entry = entries_.at(name);
    std::vector<T> values((entry.end - entry.begin) / sizeof(T));
    std::memcpy(values.data(), file_.bytes().data() + entry.begin, entry.end - entry.begin);
    return values;
  }

  const nlohmann::json facts;

 private:
  MappedFile file_;
  std::map<std::string, checkpoint::HeaderEntry> entries_;
};

std::string sha256(const std::vector<uint8_t>& bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

/// The largest difference from the rows that the case keeps as samples.
int largest_difference(const Expected& expected, const std::string& key, const ImagePatches& patches) {
  const auto samples = expected.read<uint8_t>(key + "_u8");
  const auto rows = expected.read<int64_t>(key + "_u8_rows");
  const auto width = static_cast<size_t>(patches.samples_per_patch());
  int worst = samples.size() == rows.size() * width && !rows.empty() ? 0 : 255;
  for (size_t r = 0; r < rows.size() && worst < 255; ++r) {
    for (size_t i = 0; i < width; ++i) {
      const int got = patches.patch(static_cast<int>(rows[r]))[i];
      worst = std::max(worst, std::abs(got - samples[r * width + i]));
    }
  }
  return worst;
}

PatchSide side_of(const std::string& name) {
  return name == "unified" ? PatchSide::kBlock : PatchSide::kPatch;
}

TEST(Golden, pixel_values_and_positions_of_the_small_cases_are_equal) {
  for (const std::string name : {"e2b", "dense", "moe", "unified"}) {
    const std::string folder = std::string(SLIP_GOLDEN) + "/" + name;
    const Expected expected(folder);
    const ImagePatches patches = patches_of(folder + "/image.png", 70, side_of(name));
    EXPECT_EQ(patches.soft_tokens, expected.facts.at("image_soft_tokens")) << name;
    EXPECT_EQ(values(patches), expected.read<float>("image_pixel_values")) << name;
    const std::vector<int32_t> got = positions(patches);
    const auto want = expected.read<int64_t>("image_position_ids");
    EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end())) << name;
  }
}

TEST(Golden, patches_of_a_photograph_are_equal_at_every_budget) {
  for (const std::string name : {"e2b", "dense", "unified"}) {
    const std::string folder = std::string(SLIP_GOLDEN_MEDIA) + "/" + name;
    const auto facts = nlohmann::json::parse(read_text_file(folder + "/expected.json"));
    for (const int budget : kBudgets) {
      const ImagePatches patches = patches_of(folder + "/photo.png", budget, side_of(name));
      const std::string key = fmt::format("photo{}_pixels", budget);
      EXPECT_EQ(sha256(patches.samples), facts.at(key + "_sha256")) << name << " " << budget;
      EXPECT_EQ(patches.count(), facts.at(key + "_patches")[0]) << name << " " << budget;
      EXPECT_EQ(patches.samples_per_patch(), facts.at(key + "_patches")[1]) << name << " " << budget;
    }
    const ImagePatches strip = patches_of(folder + "/strip.png", 70, side_of(name));
    EXPECT_EQ(sha256(strip.samples), facts.at("strip_pixels_sha256")) << name;
    EXPECT_EQ(strip.soft_tokens, facts.at("strip_soft_tokens")) << name;
  }
}

/// Versions of libjpeg and libwebp may differ by a level in what they decode; nothing else may.
TEST(Golden, files_as_people_have_them_give_the_expected_patches) {
  const std::string folder = std::string(SLIP_GOLDEN_MEDIA) + "/dense";
  const Expected expected(folder);
  for (const std::string name :
       {"turned.jpg", "full.jpg", "grey.jpg", "cmyk.jpg", "palette.png", "lossless.webp", "lossy.webp"}) {
    const ImagePatches patches = patches_of(folder + "/" + name, 70, PatchSide::kPatch);
    std::string key = "file_" + name;
    std::replace(key.begin(), key.end(), '.', '_');
    EXPECT_EQ(patches.count(), expected.facts.at(key + "_patches")[0]) << name;
    const bool lossless = name.starts_with("palette") || name.starts_with("lossless");
    EXPECT_LE(largest_difference(expected, key, patches), lossless ? 0 : 1) << name;
    if (lossless) {
      EXPECT_EQ(sha256(patches.samples), expected.facts.at(key + "_sha256")) << name;
    }
  }
}

/// The archive is a part of a larger set; what was taken out must not keep the rest from opening.
TEST(Golden, the_checkpoints_of_the_media_archive_open) {
  for (const std::string name : {"e2b", "dense", "unified"}) {
    const auto opened = checkpoint::open(std::string(SLIP_GOLDEN_MEDIA) + "/" + name + "/target");
    EXPECT_GT(opened->config.vocab, 0) << name;
  }
}

}  // namespace
}  // namespace slip::media
