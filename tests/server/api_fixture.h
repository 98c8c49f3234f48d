// What tests of the API share: an exchange that keeps what it is told, timers whose time a test moves, a source of
// replies that writes a script, and a service on top of them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/reply_text.h"
#include "server/api/service.h"
#include "support/scripted_model.h"
#include "synth/synthetic.h"

namespace slip::server::api {

using nlohmann::json;

/// What a client got.
class FakeExchange final : public http::Exchange {
 public:
  void respond(int status, std::vector<http::Header> headers, std::string body) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(status_, 0) << "answered twice";
    status_ = status;
    headers_ = std::move(headers);
    text_ = std::move(body);
    done_ = true;
    changed_.notify_all();
  }
  void start(int status, std::vector<http::Header> headers) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(status_, 0) << "answered twice";
    status_ = status;
    headers_ = std::move(headers);
    streams_ = true;
  }
  bool write(std::string_view data) override {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(streams_ && !done_);
    if (!open_) return false;
    text_ += data;
    changed_.notify_all();
    return true;
  }
  void finish() override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(done_) << "finished twice";
    done_ = true;
    changed_.notify_all();
  }
  bool open() const override { return open_; }
  void on_close(std::function<void()> callback) override {
    const std::lock_guard lock(mutex_);
    on_close_ = std::move(callback);
  }

  /// The client goes away.
  void leave() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      open_ = false;
      callback = on_close_;
    }
    if (callback) callback();
  }
  /// The client stays, but what is written does not reach it any more.
  void clog() { open_ = false; }
  void wait() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [this] { return done_; })) << text_;
  }
  /// Until the text holds `part`.
  void wait_for(const std::string& part) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] {
      return text_.find(part) != std::string::npos;
    })) << text_;
  }

  int status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  bool done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  bool streams() const { return streams_; }
  json body() const { return json::parse(text(), nullptr, false); }
  std::string header(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    for (const auto& header : headers_) {
      if (header.name == name) return header.value;
    }
    return "";
  }
  /// The data events of a stream; "[DONE]" as a string.
  std::vector<json> events() const {
    std::vector<json> events;
    std::string rest = text();
    for (size_t end; (end = rest.find("\n\n")) != std::string::npos; rest.erase(0, end + 2)) {
      const std::string event = rest.substr(0, end);
      EXPECT_TRUE(event.starts_with("data: ")) << event;
      const std::string data = event.substr(6);
      events.push_back(data == "[DONE]" ? json(data) : json::parse(data));
    }
    EXPECT_EQ(rest, "");
    return events;
  }

  /// The same of a stream whose events have names: each is the "type" of its data.
  std::vector<json> named_events() const {
    std::vector<json> events;
    std::string rest = text();
    for (size_t end; (end = rest.find("\n\n")) != std::string::npos; rest.erase(0, end + 2)) {
      const std::string event = rest.substr(0, end);
      const size_t line = event.find('\n');
      EXPECT_TRUE(event.starts_with("event: ") && line != std::string::npos) << event.substr(0, 200);
      EXPECT_EQ(event.substr(line + 1, 6), "data: ");
      events.push_back(json::parse(event.substr(line + 7)));
      EXPECT_EQ(events.back().at("type"), event.substr(7, line - 7));
    }
    EXPECT_EQ(rest, "");
    return events;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int status_ = 0;
  std::vector<http::Header> headers_;
  std::string text_;
  bool streams_ = false, done_ = false;
  std::atomic<bool> open_{true};
  std::function<void()> on_close_;
};

class ManualTimers final : public Timers {
 public:
  Time now() const override {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void at(Time when, std::function<void()> call) override {
    const std::lock_guard lock(mutex_);
    calls_.emplace(when, std::move(call));
  }
  /// Lets time pass and calls what falls due.
  void advance(std::chrono::milliseconds by) {
    std::unique_lock lock(mutex_);
    now_ += by;
    while (!calls_.empty() && calls_.begin()->first <= now_) {
      const auto call = std::move(calls_.begin()->second);
      calls_.erase(calls_.begin());
      lock.unlock();
      call();
      lock.lock();
    }
  }

 private:
  mutable std::mutex mutex_;
  Time now_{std::chrono::hours(1)};
  std::multimap<Time, std::function<void()>> calls_;
};

/// Writes tokens that a test gives: the same for every request, so many in one step as `steps` says in turn. Runs on
/// a thread of its own, as an engine does.
class ScriptedReplies final : public ReplySource {
 public:
  struct Script {
    std::vector<int> tokens;         // the last one ends the reply when it is a stop id
    std::vector<size_t> steps = {};  // tokens of each step; beyond them one at a time
    size_t pause_at = ~size_t{0};    // waits there for go_on()
    size_t fail_at = ~size_t{0};     // ends there with an error
    std::chrono::milliseconds step_time{0}, prompt_time{0};
  };

  ScriptedReplies() : thread_([this] { loop(); }) {}
  ~ScriptedReplies() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void set(Script script) {
    const std::lock_guard lock(mutex_);
    script_ = std::move(script);
    paused_ = true;
  }
  void go_on() {
    {
      const std::lock_guard lock(mutex_);
      paused_ = false;
    }
    changed_.notify_all();
  }

  uint64_t submit(engine::Request request) override {
    const std::lock_guard lock(mutex_);
    if (!refusal.empty()) throw Error(refusal_kind, refusal);
    last_max_tokens = request.max_tokens;
    last_min_tokens = request.min_tokens;
    last_draft = request.draft;
    last_salt = request.salt;
    last_prompt = request.prompt;
    last_sampling = request.sampling;
    auto run = std::make_unique<Run>();
    run->stats.prompt_tokens = static_cast<int>(request.prompt.size());
    run->text = std::make_unique<engine::ReplyText>(std::move(request.reply), request.stop_strings);
    run->request = std::move(request);
    run->id = next_++;
    run->script = choose ? choose(run->request) : script_;
    run->next = Clock::now() + run->script.prompt_time;
    const uint64_t id = run->id;
    runs_.push_back(std::move(run));
    changed_.notify_all();
    return id;
  }
  void cancel(uint64_t id) override {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
    ++cancels;
    changed_.notify_all();
  }
  engine::Load load() const override {
    const std::lock_guard lock(mutex_);
    engine::Load now = load_now;
    now.running = static_cast<int>(runs_.size());
    return now;
  }
  int context() const override { return context_size; }
  int longest() const override { return longest_size > 0 ? longest_size : context_size; }

  // To be set before, and looked at after.
  /// What is said to whom; without it the script.
  std::function<Script(const engine::Request&)> choose;
  int context_size = 512;
  int longest_size = 0;  // where the caches are smaller than the context
  engine::Load load_now{
      .sequences = 4, .cache_bytes = 1000, .free_bytes = 250, .prompt_rate = 100, .decode_rate = 50};
  std::string refusal;
  ErrorKind refusal_kind = ErrorKind::kUsage;
  std::atomic<int> cancels{0};
  int last_max_tokens = 0, last_min_tokens = 0;
  bool last_draft = true;
  kv::Salt last_salt;
  std::vector<int> last_prompt;
  sample::Options last_sampling;

 private:
  using Clock = std::chrono::steady_clock;
  struct Run {
    uint64_t id = 0;
    engine::Request request;
    std::unique_ptr<engine::ReplyText> text;
    Script script;
    engine::Stats stats;
    size_t at = 0, step = 0;
    bool scored = false;
    Clock::time_point next = {};
  };

  void loop() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      std::vector<Run*> ready;
      const Clock::time_point now = Clock::now();
      Clock::time_point soonest = now + std::chrono::hours(1);
      for (const auto& run : runs_) {
        const bool cancelled = std::find(cancelled_.begin(), cancelled_.end(), run->id) != cancelled_.end();
        if (!cancelled && paused_ && run->at >= run->script.pause_at) continue;
        if (cancelled || run->next <= now) {
          ready.push_back(run.get());
        } else {
          soonest = std::min(soonest, run->next);
        }
      }
      if (ready.empty()) {
        changed_.wait_until(lock, soonest);
        continue;
      }
      for (Run* run : ready) {
        const bool cancelled = std::find(cancelled_.begin(), cancelled_.end(), run->id) != cancelled_.end();
        lock.unlock();
        const bool ended = step(*run, cancelled);
        lock.lock();
        if (ended) std::erase_if(runs_, [run](const auto& other) { return other.get() == run; });
      }
    }
  }

  /// True when the reply has ended.
  bool step(Run& run, bool cancelled) {
    if (cancelled) return end(run, engine::FinishReason::kCancelled);
    if (!run.scored) score_prompt(run);
    run.next = Clock::now() + run.script.step_time;
    const size_t wide = run.step < run.script.steps.size() ? run.script.steps[run.step] : 1;
    ++run.step;
    for (size_t i = 0; i < wide; ++i) {
      if (run.at == run.script.pause_at && paused_) return false;
      if (run.at == run.script.fail_at) return end(run, engine::FinishReason::kError, "the device is gone");
      if (run.at == run.script.tokens.size())
        return end(run, engine::FinishReason::kError, "the script is over");
      if (token(run, run.script.tokens[run.at++])) return true;
    }
    return false;
  }

  void score_prompt(Run& run) {
    run.scored = true;
    if (run.request.prompt_logprobs < 0) return;
    for (size_t i = 0; i < run.request.prompt.size(); ++i) {
      const sample::TokenLogprob top[] = {{run.request.prompt[i], -0.5f}};
      engine::Delta delta{.token = run.request.prompt[i], .logprob = i == 0 ? NAN : -0.5f, .of_prompt = true};
      if (i > 0) delta.top = top;
      run.request.sink(delta);
    }
  }

  bool token(Run& run, int id) {
    using engine::FinishReason;
    const auto& stops = run.request.stop_ids;
    const bool stop = std::find(stops.begin(), stops.end(), id) != stops.end();
    FinishReason reason = stop ? FinishReason::kStopId : FinishReason::kNone;
    run.text->begin();
    if (!stop) {
      ++run.stats.output_tokens;
      run.text->push(id);
      run.stats.reasoning_tokens += run.text->landing().place == text::Place::kReasoning ? 1 : 0;
      if (run.text->stopped())
        reason = FinishReason::kStopString;
      else if (run.stats.output_tokens >= run.request.max_tokens)
        reason = FinishReason::kMaxTokens;
    }
    if (reason != FinishReason::kNone) run.text->finish();
    const sample::TokenLogprob top[] = {{id, -0.25f}, {(id + 1) % 512, -2.0f}};
    engine::Delta delta{.token = id,
                        .events = run.text->events(),
                        .landing = run.text->landing(),
                        .logprob = -0.25f,
                        .finish = reason};
    const int wanted = run.request.sampling.top_logprobs;
    if (wanted > 0) delta.top = std::span(top).first(static_cast<size_t>(std::min(wanted, 2)));
    if (reason != FinishReason::kNone) delta.stats = &run.stats;
    run.stats.first_token_s = 0.5;
    run.request.sink(delta);
    return reason != FinishReason::kNone;
  }

  bool end(Run& run, engine::FinishReason reason, std::string_view error = {}) {
    run.text->begin();
    run.text->finish();
    run.request.sink({.events = run.text->events(), .finish = reason, .error = error, .stats = &run.stats});
    return true;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Script script_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<uint64_t> cancelled_;
  uint64_t next_ = 1;
  std::atomic<bool> paused_{true};
  bool stop_ = false;
  std::thread thread_;  // last
};

/// A model that was opened and never loaded: what a service needs of one beside its replies.
inline session::Model& scripted_model() {
  static const auto model = [] {
    const test::ScriptedVocabulary vocabulary(test::thoughtful_script());
    auto made =
        std::make_unique<session::Model>(synth::synthesize({.shape = "tiny-e2b", .bits = 8}),
                                         text::Tokenizer::parse(vocabulary.tokenizer_json(), "scripted"));
    made->open_drafters({.kind = session::Drafting::kNone});
    return made;
  }();
  return *model;
}

/// A service over the script.
class Server {
 public:
  explicit Server(ServiceOptions options = {}, bool open = true, int context = 512) {
    replies.context_size = context;
    options.log = [this](std::string_view line) {
      const std::lock_guard lock(log_mutex_);
      log_.emplace_back(line);
    };
    service = std::make_unique<Service>(std::move(options), timers);
    if (open) service->open(scripted_model(), replies);
  }
  ~Server() { service->stop(); }

  /// Sets what the model writes: text with control tokens spelled out. It ends with <turn|>, unless `whole` is false.
  void says(const std::string& reply, ScriptedReplies::Script how = {}, bool ends = true) {
    how.tokens = scripted_model().tokenizer().encode(reply);
    if (ends) how.tokens.push_back(*scripted_model().tokenizer().id_of("<turn|>"));
    replies.set(std::move(how));
  }

  std::shared_ptr<FakeExchange> send(const std::string& method, const std::string& path,
                                     std::string body = {}, const std::string& key = {}) {
    auto exchange = std::make_shared<FakeExchange>();
    http::Request request;
    request.method = method;
    request.path = path;
    request.body = std::move(body);
    request.id = "req-" + std::to_string(++requests_);
    request.key = key;
    service->handle(std::move(request), exchange);
    return exchange;
  }
  std::shared_ptr<FakeExchange> post(const std::string& path, const json& body, const std::string& key = {}) {
    auto exchange = send("POST", path, body.dump(), key);
    return exchange;
  }
  /// Waits for the end of the answer.
  std::shared_ptr<FakeExchange> ask(const std::string& path, const json& body) {
    auto exchange = post(path, body);
    exchange->wait();
    return exchange;
  }
  std::vector<std::string> log() const {
    const std::lock_guard lock(log_mutex_);
    return log_;
  }
  /// Until all requests are told of in the log.
  void settle() { EXPECT_TRUE(service->drained(std::chrono::seconds(60))); }

  ManualTimers timers;
  ScriptedReplies replies;
  std::unique_ptr<Service> service;

 private:
  std::atomic<int> requests_{0};
  mutable std::mutex log_mutex_;
  std::vector<std::string> log_;
};

/// A chat request of one user message.
inline json chat(json more = json::object()) {
  json body{{"model", ""}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  if (more.is_object()) body.update(more);
  return body;
}

/// A chat stream put together again, as a client does it: one message per choice, of the shape of a whole answer.
inline json assembled(const std::vector<json>& events) {
  std::map<int, json> choices;
  json usage;
  for (const json& event : events) {
    if (!event.is_object()) continue;
    if (event.contains("error")) return event;
    if (event.contains("usage") && !event["usage"].is_null()) usage = event["usage"];
    for (const json& choice : event.at("choices")) {
      const int index = choice.at("index");
      if (!choices.contains(index)) {
        EXPECT_EQ(choice.at("delta").value("role", ""), "assistant") << "the first chunk carries the role";
        choices[index] = {{"content", ""},          {"reasoning_content", ""}, {"reasoning", ""},
                          {"calls", json::array()}, {"scores", json::array()}, {"finish_reason", nullptr}};
      }
      json& whole = choices[index];
      EXPECT_TRUE(whole["finish_reason"].is_null()) << "something follows the finish reason";
      const json& delta = choice["delta"];
      for (const char* text : {"content", "reasoning_content", "reasoning"}) {
        if (delta.contains(text))
          whole[text] = whole[text].get<std::string>() + delta[text].get<std::string>();
      }
      for (const json& call : delta.value("tool_calls", json::array())) {
        const size_t at = call.at("index");
        if (at == whole["calls"].size()) {
          EXPECT_EQ(call.at("type"), "function");
          EXPECT_NE(call.at("id"), "");
          whole["calls"].push_back(
              {{"id", call["id"]}, {"name", call.at("function").at("name")}, {"arguments", ""}});
        } else {
          EXPECT_FALSE(call.contains("id") || call.contains("type") || call["function"].contains("name"))
              << "id, type and name come once";
        }
        json& arguments = whole["calls"][at]["arguments"];
        arguments = arguments.get<std::string>() + call["function"].value("arguments", "");
      }
      if (choice.contains("logprobs") && !choice["logprobs"].is_null()) {
        for (const json& score : choice["logprobs"]["content"]) whole["scores"].push_back(score);
      }
      whole["finish_reason"] = choice.at("finish_reason");
    }
  }
  json all = json::array();
  for (auto& [index, choice] : choices) all.push_back(std::move(choice));
  return {{"choices", all}, {"usage", usage}};
}

/// A whole answer in the same shape.
inline json reshaped(const json& body) {
  json all = json::array();
  for (const json& choice : body.at("choices")) {
    const json& message = choice.at("message");
    json calls = json::array();
    for (const json& call : message.value("tool_calls", json::array())) {
      calls.push_back({{"id", call.at("id")},
                       {"name", call.at("function").at("name")},
                       {"arguments", call.at("function").at("arguments")}});
    }
    const auto text = [&](const char* key) {
      return message.contains(key) && message[key].is_string() ? message[key].get<std::string>()
                                                               : std::string();
    };
    json scores = json::array();
    if (!choice.at("logprobs").is_null()) scores = choice["logprobs"]["content"];
    all.push_back({{"content", text("content")},
                   {"reasoning_content", text("reasoning_content")},
                   {"reasoning", text("reasoning")},
                   {"calls", calls},
                   {"scores", scores},
                   {"finish_reason", choice.at("finish_reason")}});
  }
  return {{"choices", all}, {"usage", body.at("usage")}};
}

}  // namespace slip::server::api
