#include "cli/commands/bench_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/program.h"

namespace slip::cli {
namespace {

using nlohmann::json;

TEST(BenchTrace, puts_the_phases_of_a_step_end_to_end) {
  const std::vector<WidthResult> widths = {
      {.width = 2,
       .seconds = 3e-6,
       .phases = {{.name = "embed", .seconds = 1e-6},
                  {.name = "qkv", .layer = 0, .seconds = 2e-6, .bytes = 7},
                  {.name = "waiting", .seconds = 1e-6, .within = true}}}};
  const json events = json::parse(trace_json(widths))["traceEvents"];
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["args"]["name"], "a step of 2 rows");
  EXPECT_EQ(events[1]["ts"], 0);
  EXPECT_FALSE(events[1]["args"].contains("layer"));
  EXPECT_EQ(events[2]["name"], "qkv");
  EXPECT_DOUBLE_EQ(events[2]["ts"].get<double>(), 1);
  EXPECT_DOUBLE_EQ(events[2]["dur"].get<double>(), 2);
  EXPECT_EQ(events[2]["args"], json({{"bytes", 7}, {"layer", 0}}));
}

TEST(BenchTrace, that_cannot_be_written_is_refused_before_anything_is_measured) {
  const test::Result result =
      test::run({"bench", "--shape", "tiny-e2b", "--trace", "/nowhere/at/all.json", "--prompt", "0"});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("/nowhere/at/all.json"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace slip::cli
