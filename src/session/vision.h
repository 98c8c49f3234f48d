// Vision: how a model sees: from a picture's bytes to the soft rows that stand for it in a prompt.
//
// look() is the caller's part and may come from any thread: it hashes, asks the cache, and has the picture decoded in a
// process of its own. The tower's part runs on the engine's thread between steps, in slices, so that nobody who
// writes waits for a whole tower; its weights are loaded with the first picture.
//
// A picture that nobody waits for any more is dropped, also in the middle of its encoding.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/vision.h"
#include "media/decoder.h"
#include "session/picture_cache.h"
#include "session/prompt.h"

namespace slip::session {

struct VisionOptions {
  media::DecoderOptions decoder = {};
  size_t cache_bytes = size_t{256} << 20;  // of soft rows that are kept
};

/// A picture as it was sent.
struct PictureFile {
  std::string name;  // for messages: the file as it was given, or where in a request it stood
  std::vector<std::byte> bytes;
};

struct PictureOptions {
  std::optional<int> soft_tokens =
      {};              // one of media::kBudgets, or media::kAutoBudget; empty: the model's own
  kv::Salt salt = {};  // who may share what is made of it
};

/// A picture that a prompt can hold.
struct Picture {
  std::string name;
  std::shared_ptr<PictureRows> rows;
  bool known = false;  // it was looked at before, and not decoded again
  Media media = {};

  const PictureFacts& facts() const { return rows->facts(); }
};

class Vision {
 public:
  /// `origin` names the checkpoint. `both_ways`: rows of a picture see each other in both directions.
  Vision(checkpoint::Vision part, std::string origin, bool both_ways, VisionOptions options);

  const checkpoint::MediaTokens& tokens() const { return part_.tokens; }
  const model::VisionConfig& config() const { return part_.config; }
  int default_soft_tokens() const { return part_.soft_tokens; }
  const media::Limits& limits() const { return decoder_.limits(); }

  /// Throws media::Refused for a file that is not read, Error(kUsage) for a budget or a shape that this model cannot take.
  Picture look(const PictureFile& file, const PictureOptions& options = {}, std::stop_token stop = {});
  /// Positions the picture will take, from its header alone; nothing where that does not say.
  std::optional<int> foresee(const PictureFile& file, const PictureOptions& options = {}) const;
  /// Somebody waits for the rows of a picture that was looked at: they are made in the order of the calls.
  void want(const kv::MediaKey& key);

  // On the engine's thread.
  /// Loads the tower, if that has not happened yet. The backend outlives this.
  void load(backend::Backend& backend);
  /// The next part of the work, at most `seconds` of it as far as that can be foreseen. True while there is more.
  bool run_slice(backend::Backend& backend, double seconds);

  /// Memory the tower will take, for pictures of so many soft tokens; an estimate from its shape.
  size_t needed_bytes(int soft_tokens) const;
  /// Weights and workspace of the tower; 0 while it is not loaded.
  size_t resident_bytes() const { return encoder_ ? encoder_->resident_bytes() : 0; }

 private:
  int budget_of(const std::string& name, const PictureOptions& options) const;
  media::PatchSide side() const;
  void check_grid(const std::string& name, const media::ImagePatches& patches) const;
  /// The next picture that somebody waits for; null when there is none.
  std::shared_ptr<PictureRows> next();
  void begin(backend::Backend& backend);
  void drop_unwanted();
  void fail_current();

  const checkpoint::Vision part_;
  const std::string origin_;
  const bool both_ways_;
  media::Decoder decoder_;
  PictureCache cache_;

  std::mutex mutex_;  // guards the queue
  std::deque<std::weak_ptr<PictureRows>> wanted_;

  // Of the engine's thread.
  std::unique_ptr<backend::Encoder> encoder_;
  std::shared_ptr<PictureRows> current_;
  double current_s_ = 0;
};

}  // namespace slip::session
