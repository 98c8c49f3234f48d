// Metrics: what Prometheus reads from /metrics, under the names that vLLM uses, so that routers, autoscalers and
// dashboards made for it work unchanged. All of its families are there; what nothing counts yet stays zero.
//
// prometheus-cpp keeps the counters and writes the text; metrics.cpp is the only file that knows it. From any thread.
#pragma once

#include <memory>
#include <string>

#include "engine/stats.h"
#include "server/api/record.h"

namespace slip::server::api {

class Metrics {
 public:
  struct Labels {
    std::string model_name;
    std::string version, commit, build;
  };
  explicit Metrics(const Labels& labels);
  ~Metrics();

  /// A request that was answered, in whatever way.
  void add(const RequestRecord& record);
  /// Between two tokens of a reply.
  void token_time(double seconds);

  /// The exposition text, with gauges as of now. `kv_page`: positions of a page, of which there are
  /// `kv_pages`.
  std::string text(const engine::Load& load, int kv_page, int64_t kv_pages);

 private:
  struct Families;
  void add_steps(const engine::StepSizes& sizes);

  std::unique_ptr<Families> families_;
};

}  // namespace slip::server::api
