// Pictures of a golden case. Two kinds of cases have some: those of text, with one picture and a video (image.png,
// frameN.png), and those of media, with a photograph at every budget, strips, files as people have them, and drafts
// behind a picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "checkpoint/assistant.h"
#include "checkpoint/vision.h"
#include "conformance/golden_support.h"
#include "hub/digest.h"
#include "media/decoder.h"
#include "session/tower.h"

namespace slip::conformance {

using session::Activations;

namespace {

// Relative, of soft rows and of logits behind them: floats on both sides, and rows rounded to bf16 as they are served.
constexpr double kFloatBound = 1e-3;
constexpr double kServedBound = 1.5e-2;
// Of a file whose decoder may be of another version: levels of 255.
constexpr double kJpegBound = 1;

// Of pictures, where the case does not say.
constexpr int kBudget = 70;

constexpr const char* kLevels = "levels of 255";

class Pictures {
 public:
  Pictures(const std::string& folder, const Expected& expected, const VerifyOptions& options,
           std::vector<Check>& checks)
      : folder_(folder),
        expected_(expected),
        options_(with_room(options)),
        checks_(checks),
        target_(checkpoint::open(folder + "/target")),
        vision_(open_vision()),
        decoder_({.worker = options.media_worker}),
        exact_(*target_, Activations::kFloat, kv::Storage::kF32, options_),
        served_(*target_, Activations::kAuto, kv::Storage::kF32, options_),
        tower_(session::load_tower(exact_.backend(), vision_.config, vision_.weights)),
        served_tower_(session::load_tower(served_.backend(), vision_.config, vision_.weights)) {}

  void of_text_case() {
    if (expected_.has("image_logits")) {
      const media::ImagePatches patches = picture("image.png", kBudget);
      if (expected_.has("image_pixel_values")) {
        const std::vector<float> want = expected_.floats("image_pixel_values");
        checks_.push_back(judge("image pixels", differing(media::values(patches), want), 0, kBits));
      }
      check_features("image soft rows", "image_features", patches);
      check_text("image",
                 {.ids = "image_prompt_ids", .logits = "image_logits", .greedy = "image_greedy_tokens"},
                 {encode(patches)}, vision_.tokens.image);
    }
    if (expected_.has("video_logits"))
      check_text("video", {.ids = "video_prompt_ids", .logits = "video_logits"}, frames(kBudget),
                 vision_.tokens.video);
  }

  void of_media_case() {
    check_photo_pixels();
    check_files();
    for (const int budget : media::kBudgets) {
      const std::string name = fmt::format("photo{}", budget);
      if (!expected_.has(name + "_features")) continue;
      const media::ImagePatches patches = picture("photo.png", budget);
      check_features(name + " soft rows", name + "_features", patches);
      if (expected_.has(name + "_logits"))
        check_text(name, {.ids = name + "_ids", .logits = name + "_logits", .greedy = name + "_greedy"},
                   {encode(patches)}, vision_.tokens.image);
      if (expected_.has(name + "_draft")) check_drafts(name);
    }
    if (expected_.has("strip_features"))
      check_features("strip soft rows", "strip_features", picture("strip.png", kBudget));
    if (expected_.has("two_logits")) {
      check_text("two images", {.ids = "two_ids", .logits = "two_logits"},
                 {encode(picture("tall.png", 140)), encode(picture("photo.png", 140))}, vision_.tokens.image);
    }
    if (expected_.has("video_logits"))
      check_text("video", {.ids = "video_ids", .logits = "video_logits"}, frames(kBudget),
                 vision_.tokens.video);
  }

 private:
  struct Names {
    std::string ids, logits, greedy = {};
  };

  static VerifyOptions with_room(VerifyOptions options) {
    options.backend.step_rows = media::kLargestBudget;
    return options;
  }

  checkpoint::Vision open_vision() const {
    auto vision = checkpoint::open_vision(*target_);
    if (!vision) fail_file("{}/target: has no vision tower, but the case has pictures", folder_);
    return std::move(*vision);
  }

  media::ImagePatches picture(const std::string& file, int budget) {
    const bool tower = vision_.config.kind == model::VisionKind::kTower;
    return decoder_.decode_file(
        folder_ + "/" + file,
        {.budget = budget, .side = tower ? media::PatchSide::kPatch : media::PatchSide::kBlock});
  }

  backend::SoftRowsHandle encode(const media::ImagePatches& patches, bool served = false) {
    backend::Encoder& tower = served ? *served_tower_ : *tower_;
    const std::vector<float> values = media::values(patches);
    tower.begin({.patches = values,
                 .patch_floats = patches.samples_per_patch(),
                 .columns = patches.columns,
                 .rows = patches.rows,
                 .soft_rows = patches.soft_tokens});
    backend::SoftRowsHandle rows;
    while (rows == nullptr) rows = tower.run_slice(0.05);
    return rows;
  }

  std::vector<backend::SoftRowsHandle> frames(int budget) {
    std::vector<backend::SoftRowsHandle> all;
    for (int i = 0;; ++i) {
      const std::string file = fmt::format("frame{}.png", i);
      if (!std::filesystem::exists(folder_ + "/" + file)) return all;
      all.push_back(encode(picture(file, budget)));
    }
  }

  static double differing(std::span<const float> got, std::span<const float> want) {
    double count = got.size() == want.size() ? 0 : 1;
    for (size_t i = 0; i < std::min(got.size(), want.size()); ++i)
      count += std::bit_cast<uint32_t>(got[i]) != std::bit_cast<uint32_t>(want[i]) ? 1 : 0;
    return count;
  }

  static std::string digest(const media::ImagePatches& patches) {
    hub::Digest digest(hub::Digest::Kind::kSha256, patches.samples.size());
    digest.add(std::as_bytes(std::span(patches.samples)));
    return digest.finish();
  }

  /// The rows of `all` that the case has kept: those it names, or the last ones.
  std::vector<float> kept(std::span<const float> all, size_t width, const std::string& name) const {
    const size_t rows = all.size() / width;
    std::vector<int> numbers;
    if (expected_.has(name + "_rows")) {
      numbers = expected_.ids(name + "_rows");
    } else {
      const size_t count = std::min(expected_.floats(name).size() / width, rows);
      for (size_t i = rows - count; i < rows; ++i) numbers.push_back(static_cast<int>(i));
    }
    std::vector<float> out;
    for (const int row : numbers) {
      if (row < 0 || static_cast<size_t>(row) >= rows)
        fail_file("{}/expected.safetensors: {}_rows names row {} of {}", folder_, name, row, rows);
      const float* from = all.data() + static_cast<size_t>(row) * width;
      out.insert(out.end(), from, from + width);
    }
    return out;
  }

  void check_features(const std::string& label, const std::string& name, const media::ImagePatches& patches) {
    const auto width = static_cast<size_t>(vision_.config.text_hidden);
    const std::vector<float> want = expected_.floats(name);
    for (const bool served : {false, true}) {
      const backend::SoftRowsHandle soft = encode(patches, served);
      std::vector<float> all;
      for (int row = 0; row < soft->rows(); ++row)
        all.insert(all.end(), soft->host_row(row), soft->host_row(row) + width);
      checks_.push_back(judge(label + (served ? ", as served" : ""),
                              relative_error(kept(all, width, name), want),
                              served ? kServedBound : kFloatBound, kRelative));
    }
  }

  /// The prompt with each run of the placeholder as the rows of the next picture.
  std::vector<GoldenModel::Token> prompt_of(const std::string& name,
                                            std::span<const backend::SoftRowsHandle> pictures,
                                            int placeholder) const {
    std::vector<GoldenModel::Token> tokens;
    for (const int id : expected_.ids(name)) {
      if (id < 0 || id >= target_->config.vocab)
        fail_file("{}/expected.safetensors: {} has the id {}, outside the vocabulary", folder_, name, id);
      tokens.push_back({.id = id});
    }
    size_t next = 0;
    for (size_t at = 0; at < tokens.size();) {
      if (tokens[at].id != placeholder) {
        ++at;
        continue;
      }
      const backend::SoftRows* soft = next < pictures.size() ? pictures[next++].get() : nullptr;
      const size_t end = at + static_cast<size_t>(soft == nullptr ? 0 : soft->rows());
      if (soft == nullptr || end > tokens.size())
        fail_file("{}: {} does not fit the pictures", folder_, name);
      const int block = target_->config.bidirectional_media ? static_cast<int>(end) : 0;
      for (int row = 0; at < end; ++at, ++row) {
        tokens[at].soft = soft;
        tokens[at].soft_row = row;
        tokens[at].block_end = block;
      }
    }
    if (next != pictures.size()) fail_file("{}: {} does not show all pictures", folder_, name);
    return tokens;
  }

  void check_text(const std::string& label, const Names& names,
                  const std::vector<backend::SoftRowsHandle>& pictures, int placeholder) {
    const std::vector<GoldenModel::Token> prompt = prompt_of(names.ids, pictures, placeholder);
    const auto vocab = static_cast<size_t>(target_->config.vocab);
    exact_.restart();
    exact_.feed(prompt, exact_.max_rows());
    const std::vector<float> whole = exact_.logits;
    checks_.push_back(judge(label + " logits",
                            relative_error(kept(whole, vocab, names.logits), expected_.floats(names.logits)),
                            kFloatBound, kRelative));
    if (!names.greedy.empty() && expected_.has(names.greedy)) check_greedy(label, names.greedy);
    double worst = 0;
    for (const size_t width : {size_t{1}, size_t{7}, size_t{64}, size_t{100}}) {
      exact_.restart();
      exact_.feed(prompt, width);
      worst = std::max(worst, differing(exact_.logits, whole));
    }
    checks_.push_back(judge(label + ", in chunks the same bits", worst, 0, kBits));
  }

  /// Goes on from the prompt that was fed.
  void check_greedy(const std::string& label, const std::string& name) {
    int wrong = 0;
    for (const int token : expected_.tokens(name)) {
      wrong += argmax(exact_.last_logits()) == token ? 0 : 1;
      exact_.feed(std::span(&token, 1), 1);
    }
    checks_.push_back(judge(label + " tokens", wrong, 0, kWrongTokens));
  }

  /// Four guesses of the assistant behind a picture, each from the one before.
  void check_drafts(const std::string& name) {
    const auto assistant = checkpoint::open_assistant(folder_ + "/assistant", target_->config);
    const std::vector<int> want = expected_.tokens(name + "_draft");
    const std::vector<int> greedy = expected_.tokens(name + "_greedy");
    if (greedy.empty()) fail_file("{}/expected.json: {}_greedy is empty", folder_, name);
    const std::vector<backend::SoftRowsHandle> soft{encode(picture("photo.png", std::stoi(name.substr(5))))};
    const std::vector<GoldenModel::Token> prompt = prompt_of(name + "_ids", soft, vision_.tokens.image);
    exact_.restart();
    exact_.feed(prompt, exact_.max_rows());
    const auto drafter = exact_.backend().load_assistant(assistant->config, assistant->weights,
                                                         {.max_rows = 1, .extra_keys = 1});
    const auto hidden = static_cast<size_t>(target_->config.hidden),
               vocab = static_cast<size_t>(target_->config.vocab);
    std::vector<float> state(exact_.hidden.end() - static_cast<ptrdiff_t>(hidden), exact_.hidden.end());
    std::vector<float> logits;
    std::vector<int> tokens{greedy.front()};
    while (tokens.size() <= want.size()) {
      const backend::AssistantRow row{.token = tokens.back(),
                                      .hidden = state.data(),
                                      .position = static_cast<int>(prompt.size()),
                                      .keys = exact_.cache().length(),
                                      .cache = &exact_.cache()};
      const backend::Output out = drafter->step({&row, 1});
      logits.insert(logits.end(), out.logits, out.logits + vocab);
      fill_unscored(std::span(logits).last(vocab));
      state.assign(out.hidden, out.hidden + hidden);
      tokens.push_back(argmax(std::span(logits).last(vocab)));
    }
    tokens.erase(tokens.begin());
    checks_.push_back(
        compare_drafts(name + " draft logits", logits, expected_.floats(name + "_draft_logits"), options_));
    checks_.push_back(judge(name + " draft tokens", tokens == want ? 0 : 1, 0, kWrongTokens));
  }

  void check_photo_pixels() {
    int wrong = 0, all = 0;
    const auto compare = [&](const std::string& file, int budget, const std::string& name) {
      if (!expected_.has(name + "_sha256")) return;
      ++all;
      wrong += expected_.fact(name + "_sha256") == digest(picture(file, budget)) ? 0 : 1;
    };
    for (const int budget : media::kBudgets)
      compare("photo.png", budget, fmt::format("photo{}_pixels", budget));
    compare("strip.png", kBudget, "strip_pixels");
    if (all > 0) checks_.push_back(judge("pixels", wrong, 0, "wrong files", fmt::format("of {}", all)));
  }

  /// Files as people have them: to the bit, but for JPEG, whose decoders differ by a level.
  void check_files() {
    double worst = 0;
    int wrong = 0, all = 0;
    for (const char* file :
         {"turned.jpg", "full.jpg", "grey.jpg", "cmyk.jpg", "palette.png", "lossless.webp", "lossy.webp"}) {
      std::string name = fmt::format("file_{}", file);
      std::replace(name.begin(), name.end(), '.', '_');
      if (!expected_.has(name + "_sha256")) continue;
      ++all;
      const media::ImagePatches patches = picture(file, kBudget);
      if (expected_.fact(name + "_sha256") == digest(patches)) continue;
      if (!name.ends_with("_jpg")) ++wrong;
      const auto values = static_cast<size_t>(patches.samples_per_patch());
      const std::vector<uint8_t> want = expected_.bytes(name + "_u8");
      const std::vector<int> rows = expected_.ids(name + "_u8_rows");
      if (want.size() != rows.size() * values)
        fail_file("{}/expected.safetensors: {}_u8 has another shape", folder_, name);
      for (size_t i = 0; i < want.size(); ++i) {
        const uint8_t got = patches.patch(rows[i / values])[i % values];
        worst = std::max(worst, std::abs(static_cast<double>(got) - want[i]));
      }
    }
    if (all == 0) return;
    checks_.push_back(judge("files as people have them", wrong, 0, "wrong files", fmt::format("of {}", all)));
    checks_.push_back(judge("their JPEGs", worst, kJpegBound, kLevels));
  }

  const std::string& folder_;
  const Expected& expected_;
  const VerifyOptions options_;
  std::vector<Check>& checks_;
  std::unique_ptr<checkpoint::Checkpoint> target_;
  checkpoint::Vision vision_;
  media::Decoder decoder_;
  GoldenModel exact_, served_;
  std::unique_ptr<backend::Encoder> tower_, served_tower_;
};

bool is_media_case(const Expected& expected) {
  return expected.has("photo70_pixels_sha256") || expected.has("photo280_features") ||
         expected.has("strip_features");
}

}  // namespace

void check_pictures(const std::string& folder, const Expected& expected, const VerifyOptions& options,
                    std::vector<Check>& checks) {
  if (is_media_case(expected)) {
    Pictures(folder, expected, options, checks).of_media_case();
  } else if (expected.has("image_logits") || expected.has("video_logits")) {
    Pictures(folder, expected, options, checks).of_text_case();
  }
}

}  // namespace slip::conformance
