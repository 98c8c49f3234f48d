#include "server/api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <mutex>

namespace slip::server::api {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;
using Names = std::map<std::string, std::string>;

// vLLM's, so that two fleets can be compared.
const Buckets kFirstToken{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                          1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const Buckets kBetweenTokens{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                             0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const Buckets kRequest{0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                       30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const Buckets kTokens{1,    2,    5,    10,    20,    50,    100,    200,   500,
                      1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
const Buckets kChoices{1, 2, 5, 10, 20};
const Buckets kStep(engine::StepSizes::kMost.begin(), engine::StepSizes::kMost.end());

const char* reason_name(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kMaxTokens:
    case engine::FinishReason::kContext: return "length";
    case engine::FinishReason::kCancelled: return "abort";
    case engine::FinishReason::kError: return "error";
    default: return "stop";
  }
}

/// 0 where the system does not say.
size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t whole = 0, resident = 0;
  file >> whole >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

struct Metrics::Families {
  Names labels;
  prometheus::Registry registry;
  std::mutex reading;  // gauges and text belong together
  engine::StepSizes seen_steps;

  Names with(const std::string& name, const std::string& value) const {
    Names all = labels;
    all[name] = value;
    return all;
  }
  Gauge& gauge(const std::string& name, const std::string& help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  Counter& counter(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  Histogram& histogram(const std::string& name, const std::string& help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
  }

  explicit Families(const Labels& of) : labels{{"model_name", of.model_name}, {"engine", "0"}} {
    for (const char* reason : {"stop", "length", "abort", "error", "repetition"})
      success.Add(with("finished_reason", reason));
    for (int i = 0; i < speculate::kMostDepth; ++i) per_position.Add(with("position", std::to_string(i)));
    by_capacity = &waiting_by_reason.Add(with("reason", "capacity"));
    waiting_by_reason.Add(with("reason", "deferred"));
    prometheus::BuildGauge()
        .Name("slipstream_build_info")
        .Help("What runs.")
        .Register(registry)
        .Add({{"version", of.version}, {"commit", of.commit}, {"build", of.build}})
        .Set(1);
  }

  // Gauges.
  Gauge& running = gauge("vllm:num_requests_running", "Replies that are being written.");
  Gauge& waiting = gauge("vllm:num_requests_waiting", "Replies that wait for a place.");
  prometheus::Family<Gauge>& waiting_by_reason = prometheus::BuildGauge()
                                                     .Name("vllm:num_requests_waiting_by_reason")
                                                     .Help("Replies that wait, by why.")
                                                     .Register(registry);
  Gauge* by_capacity = nullptr;
  Gauge& kv_use = gauge("vllm:kv_cache_usage_perc", "Share of the cache's bytes in use, 0 to 1.");
  Gauge& kv_use_old =
      gauge("vllm:gpu_cache_usage_perc", "As vllm:kv_cache_usage_perc, under its older name.");
  prometheus::Family<Gauge>& cache_config =
      prometheus::BuildGauge().Name("vllm:cache_config_info").Help("The cache's pages.").Register(registry);
  Gauge* cache_config_value = nullptr;

  Gauge& resident = prometheus::BuildGauge()
                        .Name("process_resident_memory_bytes")
                        .Help("Memory of the process that is in RAM.")
                        .Register(registry)
                        .Add({});

  // Counters.
  Counter& prompt_tokens = counter("vllm:prompt_tokens_total", "Tokens of prompts.");
  Counter& cached_tokens =
      counter("vllm:prompt_tokens_cached_total", "Of them, found in pages that were there already.");
  Counter& generation_tokens = counter("vllm:generation_tokens_total", "Tokens written.");
  prometheus::Family<Counter>& success = prometheus::BuildCounter()
                                             .Name("vllm:request_success_total")
                                             .Help("Replies that ended, by why.")
                                             .Register(registry);
  Counter& preemptions =
      counter("vllm:num_preemptions_total", "Replies thrown out of memory and begun again.");
  Counter& prefix_queries =
      counter("vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.");
  Counter& prefix_hits = counter("vllm:prefix_cache_hits_total", "Tokens found there.");
  Counter& prefix_queries_old =
      counter("vllm:gpu_prefix_cache_queries_total", "As above, under its older name.");
  Counter& prefix_hits_old = counter("vllm:gpu_prefix_cache_hits_total", "As above, under its older name.");
  Counter& drafts = counter("vllm:spec_decode_num_drafts_total", "Rounds with guesses.");
  Counter& draft_tokens = counter("vllm:spec_decode_num_draft_tokens_total", "Guessed tokens.");
  Counter& accepted_tokens =
      counter("vllm:spec_decode_num_accepted_tokens_total", "Guessed tokens that were right.");
  prometheus::Family<Counter>& per_position = prometheus::BuildCounter()
                                                  .Name("vllm:spec_decode_num_accepted_tokens_per_pos_total")
                                                  .Help("Right guesses by their place in the draft.")
                                                  .Register(registry);
  Counter& tool_calls = counter("vllm:tool_call_parser_invocations_total", "Tool calls read from replies.");
  prometheus::Family<Counter>& answers = prometheus::BuildCounter()
                                             .Name("slipstream_http_requests_total")
                                             .Help("Answered requests by route and status.")
                                             .Register(registry);

  // Histograms.
  Histogram& first_token = histogram("vllm:time_to_first_token_seconds", "To the first token.", kFirstToken);
  Histogram& between = histogram("vllm:inter_token_latency_seconds", "Between two tokens.", kBetweenTokens);
  Histogram& per_token = histogram("vllm:request_time_per_output_token_seconds",
                                   "Mean time of a token, by reply.", kBetweenTokens);
  Histogram& per_token_old =
      histogram("vllm:time_per_output_token_seconds", "As above, under its older name.", kBetweenTokens);
  Histogram& e2e = histogram("vllm:e2e_request_latency_seconds", "From request to end.", kRequest);
  Histogram& queue = histogram("vllm:request_queue_time_seconds", "Waiting for a place.", kRequest);
  Histogram& inference = histogram("vllm:request_inference_time_seconds", "From admission to end.", kRequest);
  Histogram& prefill = histogram("vllm:request_prefill_time_seconds", "Reading the prompt.", kRequest);
  Histogram& decode =
      histogram("vllm:request_decode_time_seconds", "From the first token to the last.", kRequest);
  Histogram& request_prompt = histogram("vllm:request_prompt_tokens", "Tokens of a prompt.", kTokens);
  Histogram& request_output = histogram("vllm:request_generation_tokens", "Tokens of a reply.", kTokens);
  Histogram& most_output =
      histogram("vllm:request_max_num_generation_tokens", "The longest reply of a request.", kTokens);
  Histogram& max_tokens = histogram("vllm:request_params_max_tokens", "max_tokens of requests.", kTokens);
  Histogram& choices = histogram("vllm:request_params_n", "n of requests.", kChoices);
  Histogram& iteration = histogram("vllm:iteration_tokens_total", "Tokens of a step.", kStep);
  Histogram& computed =
      histogram("vllm:request_prefill_kv_computed_tokens", "Tokens of a prompt that were computed.", kTokens);
};

Metrics::Metrics(const Labels& labels) : families_(std::make_unique<Families>(labels)) {}
Metrics::~Metrics() = default;

void Metrics::token_time(double seconds) {
  families_->between.Observe(seconds);
}

void Metrics::add(const RequestRecord& record) {
  Families& f = *families_;
  f.answers.Add({{"route", record.route}, {"status", std::to_string(record.status)}}).Increment();
  if (!record.generated) return;
  const RequestRecord::Totals sum = record.totals();
  f.prompt_tokens.Increment(sum.prompt);
  f.cached_tokens.Increment(sum.cached);
  f.generation_tokens.Increment(sum.output);
  for (Counter* queries : {&f.prefix_queries, &f.prefix_queries_old}) queries->Increment(sum.prompt);
  for (Counter* hits : {&f.prefix_hits, &f.prefix_hits_old}) hits->Increment(sum.cached);
  f.draft_tokens.Increment(sum.speculation.drafted);
  f.accepted_tokens.Increment(sum.speculation.accepted);
  f.tool_calls.Increment(record.calls);
  f.drafts.Increment(sum.speculation.drafted_at[0]);
  for (size_t i = 0; i < static_cast<size_t>(speculate::kMostDepth); ++i)
    f.per_position.Add(f.with("position", std::to_string(i))).Increment(sum.speculation.accepted_at[i]);
  f.max_tokens.Observe(static_cast<double>(record.max_tokens));
  f.choices.Observe(record.choices);
  int longest = 0;
  for (const ReplyRecord& reply : record.replies) {
    const engine::Stats& stats = reply.stats;
    f.success.Add(f.with("finished_reason", reason_name(reply.finish))).Increment();
    f.preemptions.Increment(stats.preempted);
    longest = std::max(longest, stats.output_tokens);
    f.request_prompt.Observe(stats.prompt_tokens);
    f.request_output.Observe(stats.output_tokens);
    f.computed.Observe(stats.prompt_tokens - stats.cached_tokens);
    f.queue.Observe(stats.queued_s);
    f.e2e.Observe(record.seconds);
    f.inference.Observe(std::max(record.seconds - stats.queued_s, 0.0));
    if (stats.first_token_s <= 0) continue;
    f.first_token.Observe(stats.first_token_s);
    f.prefill.Observe(stats.prompt_s);
    f.decode.Observe(stats.decode_s);
    if (stats.decoded_tokens == 0) continue;
    for (Histogram* mean : {&f.per_token, &f.per_token_old})
      mean->Observe(stats.decode_s / stats.decoded_tokens);
  }
  f.most_output.Observe(longest);
}

// The engine counts by itself, as nothing slow runs on its thread.
void Metrics::add_steps(const engine::StepSizes& sizes) {
  Families& f = *families_;
  std::vector<double> more;
  for (size_t i = 0; i < sizes.steps.size(); ++i)
    more.push_back(static_cast<double>(sizes.steps[i] - f.seen_steps.steps[i]));
  f.iteration.ObserveMultiple(more, static_cast<double>(sizes.tokens - f.seen_steps.tokens));
  f.seen_steps = sizes;
}

std::string Metrics::text(const engine::Load& load, int kv_page, int64_t kv_pages) {
  Families& f = *families_;
  const std::lock_guard lock(f.reading);
  f.running.Set(load.running);
  f.waiting.Set(load.waiting);
  f.by_capacity->Set(load.waiting);
  const bool bounded = load.cache_bytes > 0 && load.cache_bytes != ~size_t{0};
  const double use =
      bounded ? 1 - static_cast<double>(load.free_bytes) / static_cast<double>(load.cache_bytes) : 0;
  f.kv_use.Set(use);
  f.kv_use_old.Set(use);
  add_steps(load.sizes);
  f.resident.Set(static_cast<double>(resident_bytes()));
  if (f.cache_config_value == nullptr) {
    // Both must read as whole numbers, as routers compute with them.
    Names names = f.with("block_size", std::to_string(kv_page));
    names["num_gpu_blocks"] = std::to_string(kv_pages);
    f.cache_config_value = &f.cache_config.Add(names);
    f.cache_config_value->Set(1);
  }
  return prometheus::TextSerializer().Serialize(f.registry.Collect());
}

}  // namespace slip::server::api
