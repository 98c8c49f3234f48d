#include "session/tower.h"

#include <algorithm>
#include <thread>

#include "backend/cpu/vision_encoder.h"

namespace slip::session {
namespace {

/// With threads of its own.
class HostTower final : public backend::Encoder {
 public:
  HostTower(const model::VisionConfig& config, const model::VisionWeights& weights)
      : pool_(static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u))),
        tower_(backend::cpu::load_vision(pool_, {}, config, weights)) {}

  void begin(const backend::EncoderInput& input) override { tower_->begin(input); }
  backend::SoftRowsHandle run_slice(double seconds) override { return tower_->run_slice(seconds); }
  void cancel() override { tower_->cancel(); }
  double progress() const override { return tower_->progress(); }
  int max_patches() const override { return tower_->max_patches(); }
  size_t resident_bytes() const override { return tower_->resident_bytes(); }

 private:
  ThreadPool pool_;
  std::unique_ptr<backend::cpu::ObservableEncoder> tower_;
};

}  // namespace

std::unique_ptr<backend::Encoder> load_tower(backend::Backend& backend, const model::VisionConfig& config,
                                             const model::VisionWeights& weights) {
  if (auto own = backend.load_vision(config, weights)) return own;
  return std::make_unique<HostTower>(config, weights);
}

}  // namespace slip::session
