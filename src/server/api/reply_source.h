// ReplySource: where replies come from, as far as a route cares: requests go in, deltas come out of their sinks. The
// session's Model is one; tests have one that writes the tokens of a script.
#pragma once

#include <cstdint>
#include <string>

#include "engine/request.h"
#include "engine/stats.h"
#include "session/model.h"

namespace slip::server::api {

class ReplySource {
 public:
  virtual ~ReplySource() = default;
  /// As Engine::submit(): throws Error for what can never run. The sink is called on the source's thread.
  virtual uint64_t submit(engine::Request request) = 0;
  virtual void cancel(uint64_t id) = 0;
  virtual engine::Load load() const = 0;
  /// Most tokens of a sequence.
  virtual int context() const = 0;
  /// The same, or less where its caches would not fit.
  virtual int longest() const { return context(); }
  /// Pages of tokens that all caches hold together; 0 = unknown.
  virtual int64_t cache_pages() const { return 0; }
  /// How keys and values are stored.
  virtual std::string kv_text() const { return "none"; }
};

class ModelReplies final : public ReplySource {
 public:
  /// The model is loaded and outlives this.
  explicit ModelReplies(session::Model& model) : model_(model) {}
  uint64_t submit(engine::Request request) override { return model_.submit(std::move(request)); }
  void cancel(uint64_t id) override { model_.cancel(id); }
  engine::Load load() const override { return model_.load_now(); }
  int context() const override { return model_.context(); }
  int longest() const override { return model_.longest(); }
  int64_t cache_pages() const override { return model_.cache_pages(); }
  std::string kv_text() const override { return model_.kv_text(); }

 private:
  session::Model& model_;
};

}  // namespace slip::server::api
