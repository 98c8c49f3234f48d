#include "cli/load/load_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "net/http_client.h"

namespace slip::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kNap{50};
constexpr std::chrono::seconds kBetweenLooks{1};  // at the server's memory
constexpr size_t kLongestBody = size_t{8} << 20;
constexpr int kFailuresInARow = 20;  // of a server that answers nothing

net::Request request_to(const std::string& url, const std::string& key) {
  net::Request request{.url = url};
  if (!key.empty()) request.headers.push_back({"Authorization", "Bearer " + key});
  // Prompts may take long, and whole queues of them longer.
  request.pace = {.silence = std::chrono::hours(1), .window = std::chrono::hours(1), .floor = 0};
  return request;
}

/// One request under way.
class Exchange final : public net::Receiver {
 public:
  Exchange(double begun, std::function<double()> clock, std::function<void(LoadSample)> over)
      : reader_(begun), clock_(std::move(clock)), over_(std::move(over)) {}
  bool on_head(const net::Reply& reply) override {
    reader_.on_head(reply.status);
    return true;
  }
  net::Flow on_body(std::span<const std::byte> bytes) override {
    reader_.on_body({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, clock_());
    return net::Flow::kMore;
  }
  void on_end(const net::End& end) override {
    over_(reader_.finish(end.outcome == net::Outcome::kDone ? "" : end.message, clock_()));
    ended = true;
  }
  bool ended = false;

 private:
  LoadReader reader_;
  std::function<double()> clock_;
  std::function<void(LoadSample)> over_;
};

/// Keeps the largest value of process_resident_memory_bytes, which Prometheus's own libraries define.
class MemoryWatch final : public net::Receiver {
 public:
  bool on_head(const net::Reply& reply) override {
    body_.clear();
    return reply.status == 200;
  }
  net::Flow on_body(std::span<const std::byte> bytes) override {
    body_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return body_.size() > kLongestBody ? net::Flow::kStop : net::Flow::kMore;
  }
  void on_end(const net::End&) override {
    busy = false;
    constexpr std::string_view kName = "\nprocess_resident_memory_bytes ";
    const size_t at = body_.find(kName);
    if (at != std::string::npos)
      peak = std::max(peak, std::strtod(body_.c_str() + at + kName.size(), nullptr));
  }
  bool busy = false;
  double peak = 0;

 private:
  std::string body_;
};

/// One measurement, or its warm-up: one target, one level, one round.
class Measurement {
 public:
  Measurement(const LoadPlan& plan, const LoadTarget& target, int concurrency, std::vector<double> arrivals,
              int requests, uint64_t first_index)
      : plan_(plan),
        target_(target),
        concurrency_(concurrency),
        arrivals_(std::move(arrivals)),
        requests_(requests),
        index_(first_index) {}

  void run(const std::function<void()>& answered) {
    net::HttpClient client;
    while (ended_ < requests_) {
      start_due(client);
      look_at_memory(client);
      client.poll(nap());
      std::erase_if(running_, [](const auto& one) { return one->ended; });
      for (; reported_ < ended_; ++reported_) answered();
      if (failures_ >= kFailuresInARow)
        fail(ErrorKind::kRuntime, "{}: {} requests in a row failed; the last one: {}", target_.name,
             failures_, samples.back().error);
    }
    seconds = now();
    if (memory_id_ != 0 && memory_.busy) client.stop(memory_id_);
  }

  std::vector<LoadSample> samples;
  double seconds = 0;
  double peak_bytes() const { return memory_.peak; }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  void start_due(net::HttpClient& client) {
    while (begun_ < requests_) {
      const bool due = concurrency_ > 0 ? static_cast<int>(running_.size()) < concurrency_
                                        : arrivals_[static_cast<size_t>(begun_)] <= now();
      if (!due) return;
      ++begun_;
      net::Request request = request_to(target_.url + "/v1/chat/completions", plan_.key);
      request.method = net::Method::kPost;
      request.headers.push_back({"Content-Type", "application/json"});
      request.body = load_request(plan_, target_, index_++).dump();
      running_.push_back(std::make_unique<Exchange>(
          now(), [this] { return now(); },
          [this](LoadSample sample) {
            ++ended_;
            failures_ = sample.error.empty() ? 0 : failures_ + 1;
            samples.push_back(std::move(sample));
          }));
      client.start(request, *running_.back());
    }
  }

  void look_at_memory(net::HttpClient& client) {
    if (memory_.busy || Clock::now() < next_look_) return;
    next_look_ = Clock::now() + kBetweenLooks;
    memory_.busy = true;
    memory_id_ = client.start(request_to(target_.url + "/metrics", plan_.key), memory_);
  }

  std::chrono::milliseconds nap() const {
    if (concurrency_ > 0 || begun_ == requests_) return kNap;
    const double left = arrivals_[static_cast<size_t>(begun_)] - now();
    return std::clamp(std::chrono::milliseconds(static_cast<int64_t>(left * 1000)),
                      std::chrono::milliseconds(0), kNap);
  }

  const LoadPlan& plan_;
  const LoadTarget& target_;
  const int concurrency_;
  const std::vector<double> arrivals_;
  const int requests_;
  uint64_t index_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_look_ = begin_;
  std::vector<std::unique_ptr<Exchange>> running_;
  MemoryWatch memory_;
  net::HttpClient::Id memory_id_ = 0;
  int begun_ = 0, ended_ = 0, reported_ = 0, failures_ = 0;
};

}  // namespace

std::string first_model(const std::string& url, const std::string& key) {
  net::HttpClient client;
  const net::Fetched got = net::fetch(client, request_to(url + "/v1/models", key), kLongestBody);
  if (got.end.outcome != net::Outcome::kDone)
    fail(ErrorKind::kRuntime, "{} does not answer ({}); start a server, or give its --url", url,
         got.end.message);
  if (got.reply.status == 401)
    fail_usage("{} wants a key; set SLIPSTREAM_API_KEY or give --api-key-file", url);
  const auto body = nlohmann::json::parse(got.body, nullptr, false);
  if (got.reply.status == 200 && body.is_object() && body.contains("data") && body["data"].is_array() &&
      !body["data"].empty() && body["data"][0].is_object() &&
      body["data"][0].value("id", nlohmann::json()).is_string())
    return body["data"][0]["id"];
  fail(ErrorKind::kRuntime, "{}/v1/models answers {} and names no model: no OpenAI server", url,
       got.reply.status);
}

std::vector<LoadResult> run_load(const LoadPlan& plan,
                                 const std::function<void(size_t done, size_t total)>& progress) {
  std::vector<LoadResult> results;
  size_t total = 0, done = 0;
  for (const LoadLevel& level : plan.levels)
    total += plan.targets.size() * static_cast<size_t>(plan.rounds * plan.requests_at(level) + plan.warmup);
  const auto answered = [&] { progress(++done, total); };
  uint64_t index = 0;
  for (size_t l = 0; l < plan.levels.size(); ++l) {
    const LoadLevel& level = plan.levels[l];
    const size_t first = results.size();
    for (size_t t = 0; t < plan.targets.size(); ++t) {
      results.push_back({.target = t, .level = l});
      if (plan.warmup == 0) continue;
      Measurement warmup(plan, plan.targets[t], std::max(level.concurrency, 1), {}, plan.warmup, index);
      warmup.run(answered);
    }
    index += static_cast<uint64_t>(plan.warmup);
    for (int round = 0; round < plan.rounds; ++round) {
      const int requests = plan.requests_at(level);
      const auto arrivals = level.concurrency > 0 ? std::vector<double>()
                                                  : load_arrivals(plan, level, static_cast<uint64_t>(round));
      for (size_t t = 0; t < plan.targets.size(); ++t) {
        // All targets get the same requests; no request is sent to the same one twice, or its cache would answer.
        Measurement measurement(plan, plan.targets[t], level.concurrency, arrivals, requests, index);
        measurement.run(answered);
        LoadResult& result = results[first + t];
        result.seconds += measurement.seconds;
        result.peak_bytes = std::max(result.peak_bytes, measurement.peak_bytes());
        std::move(measurement.samples.begin(), measurement.samples.end(), std::back_inserter(result.samples));
      }
      index += static_cast<uint64_t>(requests);
    }
  }
  return results;
}

}  // namespace slip::cli
