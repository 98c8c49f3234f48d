#include "speculate/depth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "speculate/simulation.h"

namespace slip::speculate {
namespace {

constexpr int kWarmUp = 200;
constexpr int kRounds = 2000;

// Seconds of a pass: memory-bound, a mixture of experts, compute-bound.
double cheap(int rows) {
  return 0.020 + 0.0004 * rows;
}
double experts(int rows) {
  return 0.010 + 0.008 * std::min(rows, 16) + 0.001 * std::max(0, rows - 16);
}
double dear(int rows) {
  return 0.020 * rows;
}
const std::map<std::string, double (*)(int)> kCurves = {
    {"cheap", cheap}, {"experts", experts}, {"dear", dear}};

double constant_step(int, int) {
  return 0.001;
}
auto always(double probability) {
  return [=](int, int, int) { return probability; };
}

TEST(DepthController, never_loses_more_than_three_percent_to_a_drafter_that_is_always_wrong) {
  for (const auto& [name, pass] : kCurves) {
    for (const int sequences : {1, 4, 7}) {
      for (const int rounds_per_text : {0, 100}) {
        World world{.pass = pass, .step = constant_step, .right = always(0)};
        world.sequences = sequences;
        world.rounds_per_text = rounds_per_text;
        Simulation simulation(world);
        simulation.run(kWarmUp);
        const Reached reached = simulation.run(kRounds);
        const double plain = sequences / pass(sequences);
        EXPECT_GE(reached.rate(), 0.97 * plain)
            << name << ", " << sequences << " sequences, texts of " << rounds_per_text;
      }
    }
  }
}

TEST(DepthController, never_loses_from_the_first_round_on_either) {
  for (const auto& [name, pass] : kCurves) {
    World world{.pass = pass, .step = constant_step, .right = always(0)};
    EXPECT_GE(Simulation(world).run(kRounds).rate(), 0.97 / pass(1)) << name;
  }
}

TEST(DepthController, comes_near_the_best_depth_of_every_cost_and_acceptance) {
  for (const auto& [name, pass] : kCurves) {
    for (const double right : {0.3, 0.6, 0.8, 0.95}) {
      for (const int sequences : {1, 4}) {
        for (const double noise : {0.0, 0.05}) {
          World world{.pass = pass, .step = constant_step, .right = always(right)};
          world.sequences = sequences;
          world.noise = noise;
          Simulation simulation(world);
          simulation.run(kWarmUp);
          const double best = best_rate(world, 0, 0);
          EXPECT_GE(simulation.run(kRounds).rate(), 0.91 * best)
              << name << ", " << right << ", " << sequences << " sequences, noise " << noise;
        }
      }
    }
  }
}

TEST(DepthController, parks_where_every_row_costs_a_whole_pass) {
  World world{.pass = dear, .step = constant_step, .right = always(0.9)};
  Simulation simulation(world);
  simulation.run(kWarmUp);
  const Reached reached = simulation.run(kRounds);
  EXPECT_LT(std::count_if(reached.depths.begin(), reached.depths.end(), [](int depth) { return depth > 0; }),
            kRounds / 50);
  EXPECT_EQ(simulation.plans[0].decision.kind, Decision::Kind::kParked);
  EXPECT_NEAR(simulation.plans[0].decision.cost, 2.05, 0.2);
}

TEST(DepthController, follows_a_text_that_becomes_easy_and_hard_again) {
  World world{.pass = cheap, .step = constant_step, .right = always(0)};
  world.right = [](int, int, int round) { return round / 3000 % 2 == 0 ? 0.05 : 0.9; };
  Simulation simulation(world);
  simulation.run(3000 + 600);  // at most one interval of probes and some rounds to believe it
  const double easy = best_rate(world, 0, 3000);
  EXPECT_GE(simulation.run(2400).rate(), 0.9 * easy);
  simulation.run(100);
  const double hard = best_rate(world, 0, 6100);
  EXPECT_GE(simulation.run(2000).rate(), 0.95 * hard);
}

TEST(DepthController, finds_the_better_of_two_drafters) {
  for (const int better : {0, 1}) {
    World world{.pass = cheap, .step = nullptr, .right = nullptr};
    world.efforts = {Effort::kSteps, Effort::kBlock};
    world.step = [](int drafter, int) { return drafter == 0 ? 0.001 : 0.003; };
    world.right = [=](int drafter, int, int) { return drafter == better ? 0.85 : 0.4; };
    Simulation simulation(world);
    simulation.run(1000);
    const Reached reached = simulation.run(kRounds);
    EXPECT_GE(reached.rate(), 0.9 * best_rate(world, better, 0)) << better;
    EXPECT_GT(std::count(reached.drafters.begin(), reached.drafters.end(), better), kRounds * 9 / 10);
  }
}

TEST(DepthController, values_lookups_by_the_length_of_the_match) {
  World world{.pass = cheap, .step = constant_step, .right = nullptr};
  world.efforts = {Effort::kLookup};
  world.right = [](int, int, int) { return 0.02; };
  world.match_class = 0;
  Simulation simulation(world);
  simulation.run(300);
  EXPECT_LT(simulation.run(100).tokens, 110);  // short matches mislead, and are hardly tried
  simulation.world().match_class = 4;
  simulation.world().right = [](int, int, int) { return 0.95; };
  EXPECT_GT(simulation.run(100).tokens, 400);  // long ones are believed at once
}

TEST(DepthController, a_new_sequence_starts_from_what_the_others_taught) {
  World world{.pass = experts, .step = constant_step, .right = always(0.02)};
  Simulation simulation(world);
  simulation.run(500);
  simulation.world().rounds_per_text = 20;
  const Reached reached = simulation.run(400);
  EXPECT_LT(std::count_if(reached.depths.begin(), reached.depths.end(), [](int depth) { return depth > 0; }),
            20);
}

TEST(DepthController, begins_with_plain_passes_and_explores_one_guess_at_a_time) {
  World world{.pass = cheap, .step = constant_step, .right = always(1)};
  const Reached reached = Simulation(world).run(200);
  EXPECT_EQ(reached.depths[0], 0);
  EXPECT_EQ(reached.depths[1], 0);
  int most = 0;
  for (const int depth : reached.depths) {
    EXPECT_LE(depth, most + 1);
    most = std::max(most, depth);
  }
  EXPECT_EQ(most, kMostDepth);
}

TEST(DepthController, does_not_run_into_a_step_of_the_costs_again_and_again) {
  World world{.pass = [](int rows) { return rows <= 4 ? 0.010 + 0.0006 * rows : 0.021; },
              .step = [](int, int) { return 0.0006; },
              .right = always(0.8)};
  Simulation simulation(world);
  simulation.run(60);
  const Reached reached = simulation.run(240);
  EXPECT_GE(reached.rate(), 0.97 * Simulation(world, {.fixed = 3}).run(5000).rate());
  EXPECT_LE(std::ranges::count_if(reached.depths, [](int depth) { return depth > 3; }), 6);
  EXPECT_LE(std::ranges::count(reached.depths, 0), 5);
}

// A single measurement may be anything, above all the first of a width.
TEST(DepthController, is_not_misled_by_a_measurement_that_was_disturbed) {
  double lowest = 1;
  for (int seed = 0; seed < 40; ++seed) {
    World world{.pass = [](int rows) { return rows <= 4 ? 0.010 + 0.0006 * rows : 0.021; },
                .step = [](int, int) { return 0.0007; },
                .right = always(0.8)};
    const double best = Simulation(world, {.fixed = 3}).run(5000).rate();
    world.outliers = 0.03;
    world.rounds_per_text = 90;
    Simulation simulation(world, {}, static_cast<uint64_t>(seed) * 100003);
    simulation.run(90);
    lowest = std::min(lowest, simulation.run(180).rate() / best);
  }
  EXPECT_GE(lowest, 0.87);
}

TEST(DepthController, gives_rows_to_the_sequence_that_uses_them) {
  World world{.pass = experts, .step = constant_step, .right = nullptr};
  world.sequences = 2;
  world.right = [](int, int, int) { return 0.0; };
  DepthController controller(world.efforts, {});
  controller.reserve(2);
  std::vector<Record> records(2, controller.new_record());
  int deep = 0, shallow = 0;
  for (int round = 0; round < 600; ++round) {
    std::vector<DraftPlan> plans(2);
    for (size_t s = 0; s < 2; ++s) {
      plans[s].record = &records[s];
      plans[s].options[0] = {.drafter = 0, .most = kMostDepth};
      plans[s].option_count = 1;
    }
    controller.plan(plans, 64);
    int rows = 2;
    for (size_t s = 0; s < 2; ++s) {
      rows += plans[s].depth;
      if (plans[s].depth > 0) {
        controller.judged(records[s], 0, 0, plans[s].depth, s == 0 ? plans[s].depth : 0);
      }
    }
    controller.passed(rows, 2, 0.02 + 0.002 * rows);
    controller.drafted(0, 2, 1, 2, 0.0005);
    if (round >= 300) deep += plans[0].depth, shallow += plans[1].depth;
  }
  EXPECT_GT(deep, 300 * 8);
  EXPECT_LT(shallow, 40);
}

TEST(DepthController, a_fixed_depth_is_kept_whatever_it_costs) {
  World world{.pass = dear, .step = constant_step, .right = always(0)};
  const Reached reached = Simulation(world, {.fixed = 5}).run(50);
  for (const int depth : reached.depths) EXPECT_EQ(depth, 5);
  const Reached none = Simulation(world, {.fixed = 0}).run(50);
  for (const int depth : none.depths) EXPECT_EQ(depth, 0);
}

TEST(DepthController, reports_plain_passes_with_what_disturbed_them_and_plans_without) {
  const Effort effort = Effort::kSteps;
  DepthController controller({&effort, 1}, {});
  controller.passed(1, 1, 9.0);  // cold
  EXPECT_EQ(controller.mean_plain_seconds(1), 0);
  for (int i = 0; i < 8; ++i) controller.passed(1, 1, i == 5 ? 0.410 : 0.010);
  controller.passed(3, 1, 0.5);  // not plain
  EXPECT_DOUBLE_EQ(controller.mean_plain_seconds(1), 0.06);
  EXPECT_LT(controller.plain_seconds(1), 0.012);
}

TEST(DepthController, extends_a_draft_only_where_that_pays) {
  for (const auto& [name, pass] : kCurves) {
    World world{.pass = pass, .step = constant_step, .right = always(0.7)};
    world.efforts = {Effort::kSteps, Effort::kLookup};
    Simulation simulation(world);
    simulation.run(400);
    DraftPlan& plan = simulation.plans[0];
    if (plan.depth == 0 || plan.probe) continue;
    const int extra = simulation.controller().extend(plan, {.drafter = 1, .match = 4, .most = 5}, 3);
    EXPECT_EQ(extra > 0, name == "cheap") << name;
  }
}

TEST(DepthController, says_why) {
  EXPECT_EQ(sentence({.kind = Decision::Kind::kParked, .drafter = "mtp", .acceptance = 0.02, .cost = 1.8}),
            "parked: 0.02 accepted per guess of mtp would cost 1.80 times a plain step");
  EXPECT_EQ(
      sentence({.kind = Decision::Kind::kChosen, .drafter = "mtp", .depth = 4, .tokens = 3.1, .cost = 1.4}),
      "mtp at depth 4: 3.10 tokens expected for 1.40 times a plain step");
}

TEST(CostCurve, discards_the_first_sample_and_clamps_what_follows) {
  CostCurve curve;
  curve.add(1, 100);
  EXPECT_FALSE(curve.measured());
  curve.add(1, 1);
  EXPECT_EQ(curve.at(1), 1);
  curve.add(1, 3);  // the smaller of the first two
  EXPECT_EQ(curve.at(1), 1);
  curve.add(1, 50);
  EXPECT_NEAR(curve.at(1), 1 + 0.25 / 3, 1e-12);
}

TEST(CostCurve, lies_on_lines_between_and_beyond_what_was_measured) {
  CostCurve curve;
  for (int i = 0; i < 3; ++i) {
    curve.add(1, 1);
    curve.add(5, 3);
    curve.add(9, 3.2);
  }
  EXPECT_NEAR(curve.at(3), 2, 1e-12);
  EXPECT_NEAR(curve.at(7), 3.1, 1e-12);
  EXPECT_NEAR(curve.at(13), 3.2 + 4 * (2.2 / 8), 1e-12);  // as steep as the whole, not as its flat end
  EXPECT_EQ(curve.widest(), 9);
}

TEST(CostCurve, takes_no_width_for_dearer_than_a_wider_one) {
  CostCurve curve;
  for (int i = 0; i < 3; ++i) {
    curve.add(2, 9);
    curve.add(4, 2);
  }
  EXPECT_EQ(curve.at(2), 2);
  EXPECT_EQ(curve.at(3), 2);
}

}  // namespace
}  // namespace slip::speculate
