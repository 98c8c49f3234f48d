#include "session/picture_rows.h"

#include "base/check.h"

namespace slip::session {
namespace {

PictureFacts facts_of(const media::ImagePatches& patches, double decode_s) {
  return {.width = patches.image_width,
          .height = patches.image_height,
          .seen_width = patches.width(),
          .seen_height = patches.height(),
          .soft_tokens = patches.soft_tokens,
          .budget = patches.budget,
          .shrunk = patches.shrunk,
          .animated = patches.animated,
          .transparent = patches.transparent,
          .decode_s = decode_s};
}

}  // namespace

PictureRows::PictureRows(const kv::MediaKey& key, media::ImagePatches patches, int hidden, double decode_s)
    : key_(key),
      patches_(std::move(patches)),
      patch_bytes_(patches_.samples.size()),
      hidden_(hidden),
      facts_(facts_of(patches_, decode_s)) {}

size_t PictureRows::row_bytes() const {
  return static_cast<size_t>(facts_.soft_tokens) * static_cast<size_t>(hidden_) * sizeof(float);
}

size_t PictureRows::bytes() const {
  return state_.load(std::memory_order_acquire) == State::kMade ? rows_->bytes() : patch_bytes_;
}

const float* PictureRows::host_row(int row) const {
  const backend::SoftRows* rows = made();
  SLIP_CHECK(rows != nullptr);
  return rows->host_row(row);
}

const backend::SoftRows* PictureRows::made() const {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kWaiting: return nullptr;
    case State::kMade: return rows_->made();
    case State::kFailed: break;
  }
  std::rethrow_exception(failure_);
}

media::ImagePatches PictureRows::take_patches() {
  begun_ = true;
  return std::move(patches_);
}

void PictureRows::note(double encode_s, double progress) {
  encode_s_.store(encode_s, std::memory_order_relaxed);
  progress_.store(progress, std::memory_order_relaxed);
}

void PictureRows::finish(backend::SoftRowsHandle rows) {
  SLIP_CHECK(rows != nullptr && rows->rows() == facts_.soft_tokens);
  rows_ = std::move(rows);
  state_.store(State::kMade, std::memory_order_release);
}

void PictureRows::fail(std::exception_ptr failure) {
  failure_ = std::move(failure);
  state_.store(State::kFailed, std::memory_order_release);
}

}  // namespace slip::session
