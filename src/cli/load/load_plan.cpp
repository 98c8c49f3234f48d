#include "cli/load/load_plan.h"

#include <algorithm>
#include <cmath>

#include "base/noise.h"

namespace slip::cli {
namespace {

/// Words that tokenizers know whole, with the blank before them: a word is a token, nearly always.
constexpr const char* kWords[] = {
    "time",     "year",    "people",   "way",    "day",        "man",    "thing",   "woman",
    "life",     "child",   "world",    "school", "state",      "family", "student", "group",
    "country",  "problem", "hand",     "part",   "place",      "case",   "week",    "company",
    "system",   "program", "question", "work",   "government", "number", "night",   "point",
    "home",     "water",   "room",     "mother", "area",       "money",  "story",   "fact",
    "month",    "lot",     "right",    "study",  "book",       "eye",    "job",     "word",
    "business", "issue",   "side",     "kind",   "head",       "house",  "service", "friend",
    "father",   "power",   "hour",     "game",   "line",       "end",    "member",  "law"};

/// Words whose choice depends on the key alone.
std::string words(uint64_t key, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += kWords[keyed_bits(key, static_cast<uint64_t>(i)) % std::size(kWords)];
  }
  return text;
}

}  // namespace

int LoadPlan::requests_at(const LoadLevel& level) const {
  if (requests > 0) return requests;
  const int together = level.concurrency > 0 ? level.concurrency : static_cast<int>(std::ceil(level.rate));
  return std::max(16, 8 * together);
}

nlohmann::json load_request(const LoadPlan& plan, const LoadTarget& target, uint64_t index) {
  const int shared = std::min(plan.shared, plan.prompt);
  std::string text = words(noise_key(plan.seed, ~uint64_t{0}), shared);
  if (shared > 0) text += ' ';
  text += words(noise_key(plan.seed, index), std::max(plan.prompt - shared, 1));
  nlohmann::json body{{"model", target.model},
                      {"messages", {{{"role", "user"}, {"content", std::move(text)}}}},
                      {"max_tokens", plan.answer},
                      {"ignore_eos", true},
                      {"temperature", 0},
                      {"stream", true},
                      {"stream_options", {{"include_usage", true}}}};
  body.update(target.fields);
  return body;
}

std::vector<double> load_arrivals(const LoadPlan& plan, const LoadLevel& level, uint64_t round) {
  std::vector<double> times;
  double now = 0;
  const uint64_t key = noise_key(plan.seed, round + (uint64_t{1} << 40));
  for (int i = 0; i < plan.requests_at(level); ++i) {
    now += -std::log1p(-keyed_uniform(key, static_cast<uint64_t>(i))) / level.rate;
    times.push_back(now);
  }
  return times;
}

}  // namespace slip::cli
