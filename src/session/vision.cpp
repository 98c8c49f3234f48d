#include "session/vision.h"

#include <chrono>

#include "backend/cpu/dot_rows.h"
#include "base/error.h"
#include "media/picture_size.h"
#include "session/media_key.h"
#include "session/tower.h"

namespace slip::session {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Vision::Vision(checkpoint::Vision part, std::string origin, bool both_ways, VisionOptions options)
    : part_(std::move(part)),
      origin_(std::move(origin)),
      both_ways_(both_ways),
      decoder_(std::move(options.decoder)),
      cache_(options.cache_bytes) {}

media::PatchSide Vision::side() const {
  return part_.config.kind == model::VisionKind::kTower ? media::PatchSide::kPatch : media::PatchSide::kBlock;
}

int Vision::budget_of(const std::string& name, const PictureOptions& options) const {
  const int budget = options.soft_tokens.value_or(part_.soft_tokens);
  if (media::is_budget(budget)) return budget;
  fail_usage("{}: a picture becomes 70, 140, 280, 560 or 1120 tokens, or auto, not {}", name, budget);
}

std::optional<int> Vision::foresee(const PictureFile& file, const PictureOptions& options) const {
  const int budget = budget_of(file.name, options);
  const auto size = media::picture_size(file.bytes);
  const media::Limits& limits = decoder_.limits();
  if (!size || size->width > limits.side || size->height > limits.side) return std::nullopt;
  return media::fit(static_cast<int>(size->width), static_cast<int>(size->height), budget).soft_tokens;
}

Picture Vision::look(const PictureFile& file, const PictureOptions& options, std::stop_token stop) {
  const int budget = budget_of(file.name, options);
  const kv::MediaKey key =
      media_key(file.bytes, {.tower = origin_, .salt = options.salt, .budget = budget, .side = side()});
  Picture picture{.name = file.name, .rows = cache_.find(key), .known = true};
  if (picture.rows == nullptr) {
    const auto begin = Clock::now();
    media::ImagePatches patches =
        decoder_.decode(file.bytes, file.name, {.budget = budget, .side = side()}, stop);
    check_grid(file.name, patches);
    picture.known = false;
    picture.rows = cache_.add(std::make_shared<PictureRows>(key, std::move(patches), part_.config.text_hidden,
                                                            seconds_since(begin)));
  }
  picture.media = {.key = key,
                   .rows = picture.rows->rows(),
                   .span = both_ways_ ? Media::Span::kBothWays : Media::Span::kCausal,
                   .soft = picture.rows};
  return picture;
}

void Vision::check_grid(const std::string& name, const media::ImagePatches& patches) const {
  const int most = part_.config.positions;
  if (patches.columns <= most && patches.rows <= most) return;
  fail_usage(
      "{}: would be {} x {} patches at {} tokens, but this model knows {} positions a side; use fewer tokens "
      "for it",
      name, patches.columns, patches.rows, patches.budget, most);
}

void Vision::want(const kv::MediaKey& key) {
  std::shared_ptr<PictureRows> rows = cache_.find(key);
  if (rows == nullptr || rows->settled()) return;
  const std::lock_guard lock(mutex_);
  wanted_.push_back(std::move(rows));
}

size_t Vision::needed_bytes(int soft_tokens) const {
  const model::VisionConfig& config = part_.config;
  const auto d = static_cast<size_t>(config.hidden), values = static_cast<size_t>(config.patch_values());
  const auto heads = static_cast<size_t>(config.q_size()), inner = static_cast<size_t>(config.intermediate);
  const size_t layer = 4 * d * heads + 3 * d * inner;
  const size_t weights =
      d * values + static_cast<size_t>(config.layers) * layer + static_cast<size_t>(config.text_hidden) * d;
  // A patch as it came, its stream, and its query, key and value.
  const size_t patch = sizeof(float) * (values + d + 3 * heads);
  const size_t patches =
      static_cast<size_t>(soft_tokens) * static_cast<size_t>(config.patches_per_soft_row());
  return weights * (backend::cpu::has_bf16_dot() ? 2 : 4) + patches * patch;
}

void Vision::load(backend::Backend& backend) {
  if (encoder_ == nullptr) encoder_ = load_tower(backend, part_.config, part_.weights);
}

std::shared_ptr<PictureRows> Vision::next() {
  const std::lock_guard lock(mutex_);
  while (!wanted_.empty()) {
    std::shared_ptr<PictureRows> rows = wanted_.front().lock();
    wanted_.pop_front();
    // Several requests may want one picture.
    if (rows != nullptr && !rows->begun()) return rows;
  }
  return nullptr;
}

void Vision::begin(backend::Backend& backend) {
  current_s_ = 0;
  const auto begin = Clock::now();
  load(backend);
  const media::ImagePatches patches = current_->take_patches();
  const std::vector<float> values = media::values(patches);
  const std::vector<int32_t> positions = media::positions(patches);
  encoder_->begin({.patches = values,
                   .positions = positions,
                   .patch_floats = patches.samples_per_patch(),
                   .columns = patches.columns,
                   .rows = patches.rows,
                   .soft_rows = patches.soft_tokens});
  current_s_ = seconds_since(begin);
}

bool Vision::run_slice(backend::Backend& backend, double seconds) {
  drop_unwanted();
  if (current_ == nullptr) {
    current_ = next();
    if (current_ == nullptr) return false;
    try {
      begin(backend);
    } catch (...) {
      fail_current();
    }
    return true;
  }
  try {
    const auto begin = Clock::now();
    backend::SoftRowsHandle rows = encoder_->run_slice(seconds);
    current_s_ += seconds_since(begin);
    current_->note(current_s_, rows != nullptr ? 1 : encoder_->progress());
    if (rows == nullptr) return true;
    current_->finish(std::move(rows));
    cache_.keep(current_);
    current_ = nullptr;
  } catch (...) {
    fail_current();
  }
  return true;
}

// Out of the cache first: from there on nobody can get hold of it any more.
void Vision::drop_unwanted() {
  if (current_ == nullptr || current_.use_count() > 1) return;
  cache_.forget(*current_);
  if (current_.use_count() > 1) return;
  encoder_->cancel();
  current_ = nullptr;
}

void Vision::fail_current() {
  cache_.forget(*current_);
  current_->fail(std::current_exception());
  current_ = nullptr;
}

}  // namespace slip::session
