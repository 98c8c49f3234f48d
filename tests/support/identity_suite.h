// IdentitySuite: runs requests with every sampling option on a backend, plain and with a speculator, alone
// and as ragged sequences that join and leave, and compares everything a client sees, bit for bit. It knows
// nothing of the backend but its vocabulary, so it serves fakes and real models alike.
//
// differences() returns sentences rather than failing, so that a test can also prove that the suite bites.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/noise.h"
#include "engine/engine.h"
#include "speculate/speculator.h"

namespace slip::test {

/// Token i as one to three letters, given out one token late, as a decoder does that waits for whole
/// characters.
class LetterText final : public engine::ReplyStream {
 public:
  void push(int token, std::vector<text::ReplyEvent>& out) override {
    finish(out);
    for (int i = 0; i <= token % 3; ++i, token /= 7) held_ += static_cast<char>('a' + token % 7);
  }
  void finish(std::vector<text::ReplyEvent>& out) override {
    if (!held_.empty()) out.push_back({.text = held_});
    held_.clear();
  }

 private:
  std::string held_;
};

class IdentitySuite {
 public:
  using NewSpeculator = std::function<std::unique_ptr<speculate::Speculator>()>;
  struct Settings {
    int prompt = 24;  // tokens, more or less
    int tokens = 40;  // of output
    engine::EngineOptions engine = {.mixed_prompt_rows = 8};
    bool few = false;  // every fourth case, which is enough for a sanitizer
    /// Puts pictures into the prompt of sequence `index`.
    std::function<void(engine::Request&, int index)> show = {};
  };
  struct Result {
    std::vector<std::string> differences;
    long drafted = 0, accepted = 0;
    std::vector<std::string> failures;  // of drafters
  };

  IdentitySuite(backend::Backend& backend, const Settings& settings)
      : backend_(backend), settings_(settings), vocab_(backend.config().vocab) {
    add("greedy", [](engine::Request& r) { r.sampling.temperature = 0; });
    add("temperature 1, top-k 64, top-p 0.95", [](engine::Request& r) {
      r.sampling.top_k = 64;
      r.sampling.top_p = 0.95f;
    });
    add("min-p", [](engine::Request& r) { r.sampling.min_p = 0.1f; });
    add("penalties", [](engine::Request& r) {
      r.sampling.repetition_penalty = 1.3f;
      r.sampling.presence_penalty = 0.4f;
      r.sampling.frequency_penalty = 0.3f;
    });
    add("penalties over a window, greedy", [](engine::Request& r) {
      r.sampling.temperature = 0;
      r.sampling.frequency_penalty = 0.8f;
      r.sampling.penalty_window = 9;
    });
    add("bias", [this](engine::Request& r) {
      r.sampling.logit_bias = {{1, 2.0f}, {vocab_ / 2, -3.0f}, {vocab_ - 1, 1.5f}};
    });
    add("logprobs 5", [](engine::Request& r) { r.sampling.top_logprobs = 5; });
    add("logprobs 0, greedy", [](engine::Request& r) {
      r.sampling.temperature = 0;
      r.sampling.top_logprobs = 0;
    });
    // These cut or forbid what plain decoding would write, so that they have something to do.
    add_about_plain("stop string", [](engine::Request& r, const Seen& plain) {
      if (plain.text.size() > 12) r.stop_strings = {plain.text.substr(plain.text.size() * 2 / 3, 4), "zzz"};
    });
    add_about_plain("stop id", [](engine::Request& r, const Seen& plain) {
      r.stop_ids = {plain.tokens[plain.tokens.size() * 2 / 3]};
    });
    add_about_plain("suppressed", [](engine::Request& r, const Seen& plain) {
      r.sampling.temperature = 0;
      for (size_t i = 2; i < plain.tokens.size(); i += 5) r.sampling.suppressed.push_back(plain.tokens[i]);
    });
    for (int seed = 0; seed < 3; ++seed) {
      add(fmt::format("seed {}", seed),
          [=](engine::Request& r) { r.sampling.seed = 1000u + static_cast<unsigned>(seed); });
    }
    for (Case& one : cases_) {
      for (int i = 0; i < kTogether; ++i) one.plain.push_back(run_alone(one, i, nullptr));
    }
  }

  /// Every case with speculation against the same without.
  Result differences(const NewSpeculator& speculator) {
    Result result;
    for (const Case& one : cases_) {
      const auto alone = speculator();
      compare(one, 0, "alone", run_alone(one, 0, alone.get()), result);
      collect(*alone, result);
      const auto shared = speculator();
      const std::vector<Seen> together = run_together(one, *shared);
      for (int i = 0; i < kTogether; ++i)
        compare(one, i, "among others", together[static_cast<size_t>(i)], result);
      collect(*shared, result);
    }
    return result;
  }

 private:
  static constexpr int kTogether = 4;

  struct Seen {
    std::vector<int> tokens;
    std::vector<uint32_t> logprobs;  // bits
    std::string text;
    engine::FinishReason finish = engine::FinishReason::kNone;
    engine::Stats stats;
    bool operator==(const Seen& other) const {
      return tokens == other.tokens && logprobs == other.logprobs && text == other.text &&
             finish == other.finish && stats.output_tokens == other.stats.output_tokens;
    }
  };
  using Change = std::function<void(engine::Request&)>;
  using ChangeAboutPlain = std::function<void(engine::Request&, const Seen&)>;
  struct Case {
    std::string name;
    ChangeAboutPlain change;
    std::vector<Seen> before = {};  // plain, without the change; empty where it does not matter
    std::vector<Seen> plain = {};
  };

  bool left_out() { return settings_.few && asked_++ % 4 != 0; }

  void add(std::string name, Change change) {
    if (left_out()) return;
    cases_.push_back(
        {.name = std::move(name), .change = [=](engine::Request& r, const Seen&) { change(r); }});
  }
  void add_about_plain(std::string name, ChangeAboutPlain change) {
    if (left_out()) return;
    Case one{.name = std::move(name), .change = [](engine::Request&, const Seen&) {}};
    for (int i = 0; i < kTogether; ++i) one.before.push_back(run_alone(one, i, nullptr));
    one.change = std::move(change);
    cases_.push_back(std::move(one));
  }

  // Sequences differ in length; half of each prompt repeats itself, for drafters that look up.
  engine::Request request(const Case& one, int index) const {
    engine::Request request;
    const int length = settings_.prompt * (2 + index) / 3;
    for (int i = 0; i < length; ++i) {
      const int place = i < length / 2 ? i % 5 : i;
      request.prompt.push_back(
          static_cast<int>(keyed_bits(77 + static_cast<uint64_t>(index), static_cast<uint64_t>(place)) %
                           static_cast<uint64_t>(vocab_)));
    }
    if (settings_.show) settings_.show(request, index);
    request.max_tokens = settings_.tokens - 7 * index;
    request.sampling.temperature = 1;
    request.sampling.seed = static_cast<uint64_t>(index);
    request.reply = std::make_unique<LetterText>();
    const auto at = static_cast<size_t>(index);
    one.change(request, at < one.before.size() ? one.before[at] : Seen());
    std::sort(request.sampling.suppressed.begin(), request.sampling.suppressed.end());
    request.sampling.suppressed.erase(
        std::unique(request.sampling.suppressed.begin(), request.sampling.suppressed.end()),
        request.sampling.suppressed.end());
    return request;
  }

  static std::function<void(const engine::Delta&)> sink(Seen& seen) {
    return [&seen](const engine::Delta& delta) {
      const auto keep = [&](float value) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof(bits));
        seen.logprobs.push_back(bits);
      };
      if (delta.token >= 0) {
        seen.tokens.push_back(delta.token);
        keep(delta.logprob);
        for (const auto& top : delta.top) {
          keep(top.logprob);
          seen.logprobs.push_back(static_cast<uint32_t>(top.id));
        }
      }
      seen.text += delta.text();
      seen.finish = delta.finish;
      if (delta.stats != nullptr) seen.stats = *delta.stats;
    };
  }

  Seen run_alone(const Case& one, int index, speculate::Speculator* speculator) {
    Seen seen;
    engine::Engine engine(backend_, settings_.engine, speculator);
    engine::Request asked = request(one, index);
    asked.sink = sink(seen);
    engine.submit(std::move(asked));
    engine.run_until_done();
    return seen;
  }

  std::vector<Seen> run_together(const Case& one, speculate::Speculator& speculator) {
    std::vector<Seen> seen(kTogether);
    engine::Engine engine(backend_, settings_.engine, &speculator);
    for (int i = 0; i < kTogether; ++i) {
      engine::Request asked = request(one, i);
      asked.sink = sink(seen[static_cast<size_t>(i)]);
      engine.submit(std::move(asked));
      for (int step = 0; step < 3; ++step) engine.step();
    }
    engine.run_until_done();
    return seen;
  }

  void compare(const Case& one, int index, const char* how, const Seen& seen, Result& result) const {
    const Seen& plain = one.plain[static_cast<size_t>(index)];
    result.drafted += seen.stats.speculation.drafted;
    result.accepted += seen.stats.speculation.accepted;
    if (seen == plain) return;
    size_t same = 0;
    while (same < std::min(seen.tokens.size(), plain.tokens.size()) &&
           seen.tokens[same] == plain.tokens[same])
      ++same;
    result.differences.push_back(
        fmt::format("{}, sequence {} {}: {} tokens ({}), plain {} ({}); the first {} are the same", one.name,
                    index, how, seen.tokens.size(), engine::name_of(seen.finish), plain.tokens.size(),
                    engine::name_of(plain.finish), same));
  }

  static void collect(const speculate::Speculator& speculator, Result& result) {
    result.failures.insert(result.failures.end(), speculator.failures().begin(), speculator.failures().end());
  }

  backend::Backend& backend_;
  Settings settings_;
  int vocab_;
  int asked_ = 0;  // cases before any was left out
  std::vector<Case> cases_;
};

}  // namespace slip::test
