// PictureRows: the soft rows of one picture, from its patches to what the encoder made of them. A prompt holds them
// before they are made; whoever reads them asks made() first.
//
// One thread makes them (the engine's), any thread may look. The patches go as soon as the encoder has taken them.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>

#include "backend/soft_rows.h"
#include "kv/page_key.h"
#include "media/patches.h"

namespace slip::session {

/// What was seen, for reports.
struct PictureFacts {
  int width = 0, height = 0;            // of the picture as a person sees it
  int seen_width = 0, seen_height = 0;  // as the model sees it
  int soft_tokens = 0;
  int budget = 0;            // of soft tokens, as asked for or as it was chosen
  bool shrunk = false;       // detail was lost in resizing
  bool animated = false;     // only the first frame was read
  bool transparent = false;  // white was put behind it
  double decode_s = 0;
};

class PictureRows final : public backend::SoftRows {
 public:
  PictureRows(const kv::MediaKey& key, media::ImagePatches patches, int hidden, double decode_s);

  int rows() const override { return facts_.soft_tokens; }
  /// Of what is held now: patches, then rows.
  size_t bytes() const override;
  const float* host_row(int row) const override;
  const SoftRows* made() const override;

  /// Made, or gone wrong.
  bool settled() const { return state_.load(std::memory_order_acquire) != State::kWaiting; }
  const kv::MediaKey& key() const { return key_; }
  const PictureFacts& facts() const { return facts_; }
  /// Bytes of the rows once they are made.
  size_t row_bytes() const;
  /// Time in the encoder so far, and how much of the work is done, 0 to 1.
  double encode_s() const { return encode_s_.load(std::memory_order_relaxed); }
  double progress() const { return progress_.load(std::memory_order_relaxed); }

  // Of the thread that makes them.
  bool begun() const { return begun_; }
  media::ImagePatches take_patches();
  void note(double encode_s, double progress);
  void finish(backend::SoftRowsHandle rows);
  void fail(std::exception_ptr failure);

 private:
  enum class State { kWaiting, kMade, kFailed };

  const kv::MediaKey key_;
  media::ImagePatches patches_;
  const size_t patch_bytes_;
  bool begun_ = false;
  const int hidden_;
  PictureFacts facts_;
  // Written once, before the state says so.
  backend::SoftRowsHandle rows_;
  std::exception_ptr failure_;
  std::atomic<State> state_{State::kWaiting};
  std::atomic<double> encode_s_{0}, progress_{0};
};

}  // namespace slip::session
