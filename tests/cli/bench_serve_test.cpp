// bench-serve: what it asks, what it reads from a stream however it is cut, and what it makes of it.
#include <gtest/gtest.h>

#include <set>

#include "cli/load/load_report.h"
#include "cli/load/load_sample.h"
#include "support/program.h"

namespace slip::cli {
namespace {

constexpr const char* kStream =
    "HTTP bodies may begin with anything\n\n"
    ": a comment\n\n"
    "data: {\"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": \"\"}}]}\n\n"
    "data: {\"choices\": [{\"delta\": {\"reasoning\": \"hm\"}}]}\r\n\r\n"
    "event: x\ndata: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\n"
    "data:{\"choices\": [{\"delta\": {\"content\": \"bc\"}}]}\n\n"
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 5, "
    "\"prompt_tokens_details\": "
    "{\"cached_tokens\": 2}}, \"timings\": {\"draft_n\": 4, \"draft_n_accepted\": 3}}\n\n"
    "data: [DONE]\n\n";

TEST(LoadReader, a_stream_gives_the_same_counts_however_it_is_cut) {
  const std::string_view text = kStream;
  for (size_t step = 1; step < text.size(); step += 1 + step / 5) {
    LoadReader reader(0.5);
    reader.on_head(200);
    for (size_t at = 0; at < text.size(); at += step) reader.on_body(text.substr(at, step), 1 + 0.001 * at);
    const LoadSample sample = reader.finish("", 9);
    EXPECT_EQ(sample.error, "");
    EXPECT_EQ(sample.prompt_tokens, 7);
    EXPECT_EQ(sample.cached_tokens, 2);
    EXPECT_EQ(sample.output_tokens, 5);
    EXPECT_EQ(sample.drafted, 4);
    EXPECT_EQ(sample.accepted, 3);
    EXPECT_EQ(sample.pauses.size(), 2u) << "three events brought tokens";
    EXPECT_GE(sample.first_token_s(), 0.5);
    EXPECT_NEAR(sample.token_s(), (sample.last - sample.first) / 4, 1e-9);
  }
}

TEST(LoadReader, what_is_no_whole_answer_is_an_error) {
  const auto error_of = [](int status, const std::string& text, const std::string& end = "") {
    LoadReader reader(0);
    reader.on_head(status);
    reader.on_body(text, 1);
    return reader.finish(end, 2).error;
  };
  EXPECT_NE(error_of(200, "data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\n").find("[DONE]"),
            std::string::npos);
  EXPECT_EQ(error_of(200, "data: {\"error\": {\"message\": \"the device is gone\"}}\n\ndata: [DONE]\n\n"),
            "the device is gone");
  EXPECT_NE(error_of(429, "{\"error\": 1}").find("429"), std::string::npos);
  EXPECT_NE(error_of(200, "data: nonsense\n\n").find("nonsense"), std::string::npos);
  EXPECT_NE(error_of(200, "data: [DONE]\n\n").find("usage"), std::string::npos);
  EXPECT_EQ(error_of(0, "", "connection refused"), "connection refused");
}

TEST(LoadReport, percentiles_are_nearest_ranks) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  EXPECT_EQ(percentile(values, 0.5), 50);
  EXPECT_EQ(percentile(values, 0.99), 99);
  EXPECT_EQ(percentile({7}, 0.01), 7);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

TEST(LoadReport, figures_leave_out_what_failed_and_count_it) {
  LoadPlan plan{.targets = {{.name = "one"}}, .levels = {{.concurrency = 2}}};
  LoadResult result{.seconds = 2};
  for (int i = 0; i < 4; ++i) {
    LoadSample sample{
        .begun = 0, .first = 0.1, .last = 0.5, .ended = 0.6, .prompt_tokens = 10, .output_tokens = 5};
    sample.drafted = 10, sample.accepted = 7;
    if (i == 3) sample.error = "no\nway";
    result.samples.push_back(sample);
  }
  const LoadFigures figures = figures_of(result);
  EXPECT_EQ(figures.answered, 3);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_DOUBLE_EQ(figures.requests_per_s, 1.5);
  EXPECT_DOUBLE_EQ(figures.tokens_per_s, 7.5);
  EXPECT_DOUBLE_EQ(figures.acceptance, 0.7);
  EXPECT_NEAR(figures.token_s.p50, 0.1, 1e-9);
  const std::string text = load_markdown(plan, {result});
  EXPECT_NE(text.find("| one | 2 at once | 1.50 | 7.5 |"), std::string::npos) << text;
  EXPECT_NE(text.find("70 %"), std::string::npos);
  EXPECT_NE(text.find("1 times: no\\nway"), std::string::npos) << text;
  EXPECT_EQ(load_json(plan, {result})["results"][0]["failed"], 1);
}

TEST(LoadPlan, prompts_differ_but_for_what_they_share_and_come_back_with_the_seed) {
  LoadPlan plan{.prompt = 50, .shared = 20};
  const LoadTarget target{.model = "m", .fields = {{"draft", false}}};
  std::set<std::string> prompts, heads;
  for (uint64_t i = 0; i < 20; ++i) {
    const nlohmann::json body = load_request(plan, target, i);
    const std::string text = body["messages"][0]["content"];
    EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 49);
    prompts.insert(text);
    size_t at = 0;
    for (int words = 0; words < 20; ++words) at = text.find(' ', at) + 1;
    heads.insert(text.substr(0, at));
    EXPECT_EQ(body["draft"], false);
    EXPECT_EQ(load_request(plan, target, i), body);
  }
  EXPECT_EQ(prompts.size(), 20u);
  EXPECT_EQ(heads.size(), 1u);
}

TEST(LoadPlan, requests_by_rate_come_at_random_moments_of_that_mean) {
  const LoadPlan plan{.requests = 5000};
  const std::vector<double> times = load_arrivals(plan, {.rate = 10}, 0);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_NEAR(times.back(), 500, 30);
}

TEST(BenchServe, wrong_options_are_one_sentence) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"bench-serve", "--concurrency", "0"},
                                               {"bench-serve", "--concurrency", "1,x"},
                                               {"bench-serve", "--concurrency", "1", "--rate", "1"},
                                               {"bench-serve", "--variant", "nonsense"},
                                               {"bench-serve", "--url", "ftp://x"},
                                               {"bench-serve", "--url", "http://127.0.0.1:1"}}) {
    const test::Result result = test::run(args);
    EXPECT_NE(result.code, 0);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

}  // namespace
}  // namespace slip::cli
