// Rounds without a model: a virtual clock, costs and acceptance as given functions. What the controller
// reaches is compared with plain decoding and with the best fixed depth.
#pragma once

#include <functional>
#include <vector>

#include "base/noise.h"
#include "speculate/depth.h"

namespace slip::speculate {

struct World {
  std::function<double(int rows)> pass;                               // seconds
  std::function<double(int drafter, int rows)> step;                  // seconds of a draft step or block
  std::function<double(int drafter, int position, int round)> right;  // probability
  std::vector<Effort> efforts = {Effort::kSteps};
  int sequences = 1;
  double noise = 0;         // share by which measured seconds scatter
  double outliers = 0;      // share of them that are five times too long
  int rounds_per_text = 0;  // after so many rounds new sequences come; 0 = never
  int match_class = 0;      // of lookups
};

struct Reached {
  double tokens = 0, seconds = 0;
  std::vector<int> depths;  // of sequence 0
  std::vector<int> drafters;
  double rate() const { return tokens / seconds; }
};

class Simulation {
 public:
  /// `draws`: where to begin in the line of random numbers.
  explicit Simulation(World world, DepthOptions options = {}, uint64_t draws = 0)
      : world_(std::move(world)), controller_(world_.efforts, options), draws_(draws) {
    controller_.reserve(world_.sequences);
    records_.assign(static_cast<size_t>(world_.sequences), controller_.new_record());
  }

  Reached run(int rounds) {
    Reached reached;
    for (int i = 0; i < rounds; ++i, ++round_) {
      if (world_.rounds_per_text > 0 && round_ % world_.rounds_per_text == 0) {
        for (Record& record : records_) record = controller_.new_record();
      }
      one(reached);
    }
    return reached;
  }

  DepthController& controller() { return controller_; }
  std::vector<DraftPlan> plans;
  World& world() { return world_; }

 private:
  double uniform() { return keyed_uniform(99, draws_++); }
  double measured(double seconds) {
    if (world_.outliers > 0 && uniform() < world_.outliers) return 5 * seconds;
    return seconds * (1 + world_.noise * (2 * uniform() - 1));
  }

  void one(Reached& reached) {
    plans.assign(records_.size(), {});
    for (size_t s = 0; s < records_.size(); ++s) {
      plans[s].record = &records_[s];
      for (size_t d = 0; d < world_.efforts.size(); ++d) {
        plans[s].options[d] = {.drafter = static_cast<int>(d), .most = kMostDepth};
        if (world_.efforts[d] == Effort::kLookup) plans[s].options[d].match = world_.match_class;
      }
      plans[s].option_count = static_cast<int>(world_.efforts.size());
    }
    controller_.plan(plans, 1024);
    double seconds = 0;
    for (size_t d = 0; d < world_.efforts.size(); ++d) seconds += draft(static_cast<int>(d));
    int rows = 0;
    for (const DraftPlan& plan : plans) rows += 1 + plan.depth;
    const double pass = world_.pass(rows);
    controller_.passed(rows, world_.sequences, measured(pass));
    for (DraftPlan& plan : plans) {
      int accepted = 0;
      while (accepted < plan.depth && uniform() < world_.right(plan.chosen.drafter, accepted, round_)) {
        ++accepted;
      }
      if (plan.depth > 0) {
        controller_.judged(*plan.record, plan.chosen.drafter, plan.chosen.match, plan.depth, accepted);
      }
      reached.tokens += 1 + accepted;
    }
    reached.seconds += seconds + pass;
    reached.depths.push_back(plans[0].depth);
    reached.drafters.push_back(plans[0].chosen.drafter);
  }

  double draft(int drafter) {
    int steps = 0, rows = 0, sequences = 0;
    for (const DraftPlan& plan : plans) {
      if (plan.depth == 0 || plan.chosen.drafter != drafter) continue;
      ++sequences;
      rows += plan.depth;
      steps = std::max(steps, plan.depth);
    }
    if (steps == 0) return 0;
    double seconds = 0;
    switch (world_.efforts[static_cast<size_t>(drafter)]) {
      case Effort::kLookup: return 0;
      case Effort::kBlock: seconds = world_.step(drafter, rows + sequences); break;
      case Effort::kSteps:
        for (int step = 0; step < steps; ++step) {
          int batch = 0;
          for (const DraftPlan& p : plans) batch += p.chosen.drafter == drafter && p.depth > step ? 1 : 0;
          seconds += world_.step(drafter, batch);
        }
        break;
    }
    controller_.drafted(drafter, sequences, steps, rows, measured(seconds));
    return seconds;
  }

  World world_;
  DepthController controller_;
  std::vector<Record> records_;
  int round_ = 0;
  uint64_t draws_;
};

/// The best rate of a single drafter at one depth for everybody, depth 0 included.
inline double best_rate(const World& world, int drafter, int round) {
  double best = 0;
  for (int depth = 0; depth <= kMostDepth; ++depth) {
    double tokens = 1, reach = 1, seconds = world.pass(world.sequences * (depth + 1));
    for (int i = 0; i < depth; ++i) tokens += reach *= world.right(drafter, i, round);
    const Effort effort = world.efforts[static_cast<size_t>(drafter)];
    if (effort == Effort::kSteps) seconds += depth * world.step(drafter, world.sequences);
    if (effort == Effort::kBlock && depth > 0) seconds += world.step(drafter, world.sequences * (depth + 1));
    best = std::max(best, world.sequences * tokens / seconds);
  }
  return best;
}

}  // namespace slip::speculate
