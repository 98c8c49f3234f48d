// From files to logits with the large golden media: every budget of every tower, two images, a strip, a
// video, and drafts behind an image. The archive is too large for the tree: the folder it was unpacked into
// is named by the environment variable SLIP_GOLDEN_MEDIA (with dense/, e2b/ and unified/ in it).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "backend/cpu/vision_encoder.h"
#include "base/mapped_file.h"
#include "checkpoint/assistant.h"
#include "checkpoint/vision.h"
#include "media/decoders.h"
#include "media/fit.h"
#include "media/patches.h"
#include "media/resize.h"
#include "reference/assistant.h"
#include "reference/golden.h"
#include "reference/vision.h"

namespace slip {
namespace {

using backend::cpu::ActivationMode;
using reference::Row;
using test::Golden;

// As in the text cases: floats on both sides, rows rounded to bf16, drafts.
constexpr double kFloatBound = 1e-3;
constexpr double kRoundedBound = 1.5e-2;
constexpr double kDraftBound = 1e-2;

constexpr int kImage = 7, kVideo = 8;  // placeholders

/// An image as the media room hands it over, with its samples as floats.
struct Picture {
  Picture(const std::string& path, int budget, const model::VisionConfig& config) {
    const MappedFile file(path);
    media::Decoded decoded = media::decode_picture(file.bytes(), {});
    const media::Fit size = media::fit(decoded.pixels.width, decoded.pixels.height, budget);
    const media::Pixels resized = media::resize(std::move(decoded.pixels), size.width, size.height);
    const bool tower = config.kind == model::VisionKind::kTower;
    const media::ImagePatches patches =
        media::cut_patches(resized.rgb.get(), resized.width, resized.height,
                           tower ? media::PatchSide::kPatch : media::PatchSide::kBlock);
    columns = patches.columns;
    rows = patches.rows;
    soft_rows = patches.soft_tokens;
    for (const uint8_t sample : patches.samples) values.push_back(media::value(sample));
    for (int i = 0; i < patches.count(); ++i) {
      positions.push_back(patches.position(i).x);
      positions.push_back(patches.position(i).y);
    }
  }

  int columns = 0, rows = 0, soft_rows = 0;
  std::vector<float> values;
  std::vector<int32_t> positions;
};

class Case {
 public:
  Case(const std::string& folder, const std::string& name)
      : golden(folder, name), vision(*checkpoint::open_vision(*golden.target)), pool_(2) {
    for (const auto mode : {ActivationMode::kFloat, ActivationMode::kInt8}) {
      backend::cpu::CpuOptions options;
      options.activations = mode;
      encoders_.push_back(load_vision(pool_, options, vision.config, vision.weights));
    }
  }

  Picture picture(const std::string& file, int budget) const {
    return {golden.folder + "/" + file, budget, vision.config};
  }
  std::vector<Row> encode(const Picture& picture, bool rounded = false) {
    backend::Encoder& encoder = *encoders_[rounded ? 1 : 0];
    encoder.begin({.patches = picture.values,
                   .positions = picture.positions,
                   .patch_floats = vision.config.patch_values(),
                   .columns = picture.columns,
                   .rows = picture.rows,
                   .soft_rows = picture.soft_rows});
    backend::SoftRowsHandle soft;
    while (soft == nullptr) soft = encoder.run_slice(0.05);
    std::vector<Row> rows;
    for (int i = 0; i < soft->rows(); ++i) {
      rows.emplace_back(soft->host_row(i), soft->host_row(i) + vision.config.text_hidden);
    }
    return rows;
  }
  /// Of all rows, those that the case has kept.
  double error(const std::vector<Row>& all, const std::string& name) const {
    std::vector<Row> kept;
    for (const int row : golden.ids(name + "_rows")) kept.push_back(all.at(static_cast<size_t>(row)));
    const std::vector<Row> want = golden.rows(name);
    double difference = 0, size = 0;
    if (kept.size() != want.size()) return INFINITY;
    for (size_t r = 0; r < want.size(); ++r) {
      for (size_t i = 0; i < want[r].size(); ++i) {
        difference += std::pow(static_cast<double>(kept[r].at(i)) - want[r][i], 2);
        size += std::pow(want[r][i], 2);
      }
    }
    const double error = std::sqrt(difference / size);
    return std::isnan(error) ? INFINITY : error;
  }

  Golden golden;
  checkpoint::Vision vision;

 private:
  ThreadPool pool_;
  std::vector<std::unique_ptr<backend::cpu::ObservableEncoder>> encoders_;
};

/// The reference over a prompt, image by image: a span ends where the rows of its image do.
struct Reader {
  explicit Reader(const Golden& golden)
      : program(build_program(golden.target->config, golden.target->weights)), forward(program) {}

  void read(const std::vector<int>& ids, int placeholder, const std::vector<std::vector<Row>>& images) {
    size_t image = 0;
    for (size_t i = 0; i < ids.size();) {
      if (ids[i] != placeholder) {
        results.push_back(forward.step(sequence, ids[i++]));
        continue;
      }
      const std::vector<Row>& soft = images.at(image++);
      for (auto& result : forward.step_block(sequence, soft)) results.push_back(std::move(result));
      i += soft.size();
    }
    EXPECT_EQ(image, images.size());
  }
  std::vector<Row> logits() const {
    std::vector<Row> rows;
    for (const auto& result : results) rows.push_back(result.logits);
    return rows;
  }

  model::Program program;
  reference::Forward forward;
  reference::Sequence sequence;
  std::vector<reference::Result> results;
};

class VisionMedia : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("SLIP_GOLDEN_MEDIA");
    if (folder == nullptr) {
      GTEST_SKIP() << "set SLIP_GOLDEN_MEDIA to the folder that golden/media.tar.xz was unpacked into";
    }
    golden_ = std::make_unique<Case>(folder, GetParam());
  }
  Case& at() { return *golden_; }

 private:
  std::unique_ptr<Case> golden_;
};

TEST_P(VisionMedia, soft_rows_of_every_budget_and_of_a_strip) {
  for (const int budget : media::kBudgets) {
    const std::string name = "photo" + std::to_string(budget) + "_features";
    const Picture picture = at().picture("photo.png", budget);
    const double exact = at().error(at().encode(picture), name);
    const double rounded = at().error(at().encode(picture, true), name);
    EXPECT_LT(exact, kFloatBound) << budget;
    EXPECT_LT(rounded, kRoundedBound) << budget;
    RecordProperty(name, std::to_string(exact) + ", " + std::to_string(rounded));
  }
  const Picture strip = at().picture("strip.png", 70);
  EXPECT_LT(at().error(at().encode(strip), "strip_features"), kFloatBound);
  EXPECT_LT(at().error(at().encode(strip, true), "strip_features"), kRoundedBound);
}

TEST_P(VisionMedia, the_reference_sees_the_same_soft_rows) {
  const model::VisionProgram program = build_vision_program(at().vision.config, at().vision.weights);
  for (const int budget : {70, 140, 280}) {
    const Picture picture = at().picture("photo.png", budget);
    const auto soft = reference::Vision(program).encode(
        {.rows = picture.rows, .columns = picture.columns, .values = picture.values});
    EXPECT_LT(at().error(soft, "photo" + std::to_string(budget) + "_features"), kFloatBound) << budget;
  }
}

TEST_P(VisionMedia, logits_behind_an_image_of_every_budget_also_where_it_is_longer_than_the_window) {
  for (const int budget : media::kBudgets) {
    const std::string name = "photo" + std::to_string(budget);
    Reader reader(at().golden);
    reader.read(at().golden.ids(name + "_ids"), kImage, {at().encode(at().picture("photo.png", budget))});
    EXPECT_LT(at().error(reader.logits(), name + "_logits"), kFloatBound) << budget;
  }
}

TEST_P(VisionMedia, logits_of_two_images_behind_each_other_and_of_a_video) {
  {
    Reader reader(at().golden);
    reader.read(at().golden.ids("two_ids"), kImage,
                {at().encode(at().picture("tall.png", 140)), at().encode(at().picture("photo.png", 140))});
    EXPECT_LT(at().error(reader.logits(), "two_logits"), kFloatBound);
  }
  std::vector<std::vector<Row>> frames;
  for (int i = 0;; ++i) {
    const std::string file = "frame" + std::to_string(i) + ".png";
    if (!std::filesystem::exists(at().golden.folder + "/" + file)) break;
    frames.push_back(at().encode(at().picture(file, 70)));
  }
  Reader reader(at().golden);
  reader.read(at().golden.ids("video_ids"), kVideo, frames);
  EXPECT_LT(at().error(reader.logits(), "video_logits"), kFloatBound);
}

TEST_P(VisionMedia, greedy_text_and_drafts_behind_an_image) {
  Reader reader(at().golden);
  reader.read(at().golden.ids("photo280_ids"), kImage, {at().encode(at().picture("photo.png", 280))});
  const std::vector<int> want = at().golden.tokens("photo280_greedy");
  const Row hidden = reader.results.back().hidden;
  reference::Sequence prompt = reader.sequence;
  std::vector<int> text;
  while (text.size() < want.size()) {
    text.push_back(test::argmax(reader.results.back().logits));
    reader.results.push_back(reader.forward.step(reader.sequence, text.back()));
  }
  EXPECT_EQ(text, want);

  const auto& target = *at().golden.target;
  const auto opened = checkpoint::open_assistant(at().golden.folder + "/assistant", target.config);
  reference::Assistant assistant(opened->config, opened->weights, target.config, target.weights);
  reference::AssistantStep step{.token = want.front(), .hidden = hidden};
  step.position = step.keys = prompt.length;
  step.extra_keys = 1;  // transformers' rule
  std::vector<int> drafted;
  for (const Row& logits : at().golden.rows("photo280_draft_logits")) {
    reference::Result result = assistant.step(prompt, step);
    // Transformers gives tokens that a centroid head did not score the least of the scores, less one.
    float least = INFINITY;
    for (const float x : result.logits) least = std::isinf(x) ? least : std::min(least, x);
    for (float& x : result.logits) x = std::isinf(x) ? least - 1 : x;
    EXPECT_LT(test::largest_error(result.logits, logits), kDraftBound) << drafted.size();
    drafted.push_back(test::argmax(result.logits));
    step.token = drafted.back();
    step.hidden = result.hidden;
  }
  EXPECT_EQ(drafted, at().golden.tokens("photo280_draft"));
}

INSTANTIATE_TEST_SUITE_P(Golden, VisionMedia, ::testing::Values("e2b", "dense", "unified"),
                         [](const auto& at) { return at.param; });

}  // namespace
}  // namespace slip
