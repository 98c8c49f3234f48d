#include "conformance/golden_support.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "kv/stored_row.h"
#include "reference/follow.h"
#include "reference/forward.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace slip::conformance {

using session::Activations;

namespace {

using Json = nlohmann::json;
using Result = Check::Result;

/// Follows the reference's continuation; a token counts as wrong when the model prefers another by more than
/// `slack`.
double wrong_tokens(GoldenModel& model, std::span<const int> prompt, std::span<const int> expected,
                    double slack) {
  model.restart();
  model.feed(prompt, model.max_rows());
  int wrong = 0;
  for (const int token : expected) {
    const auto row = model.last_logits();
    const auto best = static_cast<size_t>(argmax(row));
    if (row[best] - row[static_cast<size_t>(token)] > slack) ++wrong;
    model.feed(std::span(&token, 1), 1);
  }
  return wrong;
}

double differing_bits(const std::vector<float>& a, const std::vector<float>& b) {
  double count = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    count += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
  return count;
}

/// The same prompt at every width gives the same bits.
Check width_check(const std::string& name, GoldenModel& model, std::span<const int> prompt) {
  model.restart();
  model.feed(prompt, model.max_rows());
  const std::vector<float> whole = model.logits;
  double worst = 0;
  for (size_t width = 1; width <= 16; ++width) {
    model.restart();
    model.feed(prompt, width);
    worst = std::max(worst, differing_bits(model.logits, whole));
  }
  return judge(name, worst, 0, kBits);
}

/// The reference over a prompt: logits and hidden states of every token.
struct ReferenceRun {
  std::vector<float> logits, hidden;
};
using Configure = std::function<void(reference::Forward&)>;

ReferenceRun run_reference(const model::Program& program, std::span<const int> prompt,
                           const Configure& configure = {}) {
  reference::Forward forward(program);
  if (configure) configure(forward);
  reference::Sequence sequence;
  ReferenceRun run;
  for (const int token : prompt) {
    const auto result = forward.step(sequence, token);
    run.logits.insert(run.logits.end(), result.logits.begin(), result.logits.end());
    run.hidden.insert(run.hidden.end(), result.hidden.begin(), result.hidden.end());
  }
  return run;
}

void skip(std::vector<Check>& checks, const char* name, const char* why) {
  checks.push_back({name, 0, 0, "", Result::kSkipped, why});
}

constexpr const char* kStored = "beyond rounding";

/// Serving keeps K and V as bf16, which the golden results do not. On the CPU the reference follows what was
/// stored (reference/follow.h), so that both read the same keys and values.
void check_followed_cache(GoldenModel& served, const model::Program& program, std::span<const int> prompt,
                          std::vector<Check>& checks) {
  reference::Forward forward(program);
  reference::Sequence sequence;
  reference::Follower follower(forward, program.config, [&](int layer, int part, int position) {
    return kv::stored_row(served.cache(), layer, part, position);
  });
  served.restart();
  std::vector<float> want;
  for (size_t i = 0; i < prompt.size(); ++i) {
    served.feed(prompt.subspan(i, 1), 1);
    const auto result = forward.step(sequence, prompt[i]);
    follower.next();
    want.insert(want.end(), result.logits.begin(), result.logits.end());
  }
  const double allowed =
      reference::allowed_error(program, prompt,
                               {.noise = reference::float_noise(program.config), .shared_cache = true})
          .logits;
  checks.push_back(
      judge("bf16 cache, keys and values", follower.worst(), reference::stored_error(allowed), kStored));
  checks.push_back(
      judge("bf16 cache, against the reference", relative_error(served.logits, want), allowed, kRelative));
}

/// A GPU's cache cannot be read here, so its values round to other neighbours than the reference's now and
/// then. So do those of the reference when it is disturbed by as much as the GPU rounds, which gives the
/// bound.
void check_rounded_cache(GoldenModel& served, const model::Program& program, std::span<const int> prompt,
                         double noise, std::vector<Check>& checks) {
  const Configure round = [](reference::Forward& forward) { forward.bf16_cache = true; };
  served.restart();
  served.feed(prompt, served.max_rows());
  const double error = relative_error(served.logits, run_reference(program, prompt, round).logits);
  const double allowed =
      reference::allowed_error(program, prompt, {.noise = noise, .configure = round}).logits;
  checks.push_back(judge("bf16 cache, against the reference", error, allowed, kRelative));
}

void check_target(const std::string& folder, const Expected& expected, const VerifyOptions& options,
                  std::vector<Check>& checks) {
  const auto checkpoint = checkpoint::open(folder + "/target");
  const model::Program program = model::build_program(checkpoint->config, checkpoint->weights);
  const std::vector<int> prompt = prompt_of(expected, *checkpoint);
  const std::vector<float> want = expected.floats("prompt_logits");
  if (want.size() != prompt.size() * static_cast<size_t>(checkpoint->config.vocab)) {
    fail_file("{}/expected.safetensors: prompt_logits does not have one row of logits per prompt id", folder);
  }
  const double float_noise = reference::float_noise(checkpoint->config, static_cast<int>(prompt.size()));
  checks.push_back(
      judge("prompt logits, reference", relative_error(run_reference(program, prompt).logits, want),
            reference::allowed_error(program, prompt, {.noise = float_noise}).logits, kRelative));

  const double noise = device_noise(checkpoint->config, options, 16, prompt.size());
  const reference::Allowed allowed = reference::allowed_error(program, prompt, {.noise = noise});
  GoldenModel exact(*checkpoint, Activations::kFloat, kv::Storage::kF32, options);
  exact.feed(prompt, exact.max_rows());
  checks.push_back(judge("prompt logits", relative_error(exact.logits, want), allowed.logits, kRelative));
  checks.push_back(judge("last hidden", relative_error(exact.hidden, expected.floats("last_hidden")),
                         allowed.hidden, kRelative));
  // A token is only compared where the preference is clearer than the error of the logits themselves.
  const double slack = options.on_cpu() ? 0 : 2 * largest_error(exact.logits, want);
  checks.push_back(judge("greedy tokens",
                         wrong_tokens(exact, prompt, expected.tokens("greedy_tokens"), slack), 0,
                         kWrongTokens));
  checks.push_back(width_check("widths 1..16 give the same bits", exact, prompt));

  GoldenModel served(*checkpoint, Activations::kFloat, kv::Storage::kBf16, options);
  if (options.on_cpu()) {
    check_followed_cache(served, program, prompt, checks);
  } else if (checkpoint->config.experts == 0) {
    check_rounded_cache(served, program, prompt, noise, checks);
  } else {
    skip(checks, "bf16 cache, against the reference",
         "the last bit of a key, rounded, becomes another expert of these random weights");
  }
  checks.push_back(width_check("widths 1..16, bf16 cache", served, prompt));
}

/// Activations of 16 bits on the CPU: the reference rounds them alike. The head sees 8 bits, where one code
/// more or less is a percent, so it is judged by itself, from the backend's own hidden states.
void check_rounded_activations(GoldenModel& model, const model::Program& program, std::span<const int> prompt,
                               const std::string& label, std::vector<Check>& checks) {
  const Configure round = [](reference::Forward& forward) {
    forward.rounding = reference::ActivationRounding::kBits16;
    forward.head_rounding = reference::ActivationRounding::kBits8;
  };
  const reference::Probe probe{.noise = reference::float_noise(program.config), .configure = round};
  const size_t clear = reference::clear_tokens(program, prompt, probe);
  const auto judged = prompt.first(clear);
  const auto hidden_size = static_cast<size_t>(program.config.hidden);
  checks.push_back(
      judge(label + "hidden states",
            relative_error(std::span(model.hidden).first(clear * hidden_size),
                           run_reference(program, judged, round).hidden),
            reference::allowed_error(program, judged, probe).hidden, kRelative,
            clear < prompt.size() ? fmt::format("of {} tokens, whose experts are clear", clear) : ""));
  reference::Forward forward(program);
  round(forward);
  std::vector<float> want;
  for (size_t at = 0; at < model.hidden.size(); at += hidden_size) {
    const auto row =
        forward.logits_of({model.hidden.begin() + static_cast<std::ptrdiff_t>(at),
                           model.hidden.begin() + static_cast<std::ptrdiff_t>(at + hidden_size)});
    want.insert(want.end(), row.begin(), row.end());
  }
  checks.push_back(
      judge(label + "head", relative_error(model.logits, want), reference::kMargin * probe.noise, kRelative));
}

void check_quantised(const std::string& folder, int bits, const Expected& expected,
                     const VerifyOptions& options, std::vector<Check>& checks) {
  const std::string key = fmt::format("mlx{}", bits), label = key + " ";
  const auto checkpoint = checkpoint::open(folder + "/target-" + key);
  const model::Program program = model::build_program(checkpoint->config, checkpoint->weights);
  const std::vector<int> prompt = prompt_of(expected, *checkpoint);
  const std::vector<float> want = expected.floats(key + "_logits");
  const double float_noise = reference::float_noise(checkpoint->config, static_cast<int>(prompt.size()));
  const double float_allowed = reference::allowed_error(program, prompt, {.noise = float_noise}).logits;
  checks.push_back(judge(label + "prompt logits, reference",
                         relative_error(run_reference(program, prompt).logits, want), float_allowed,
                         kRelative));
  for (const Activations mode : {Activations::kFloat, Activations::k16, Activations::k11}) {
    // What the device has: a GPU 11 bits where no experts are chosen (backend/cuda/device_weights.cpp).
    if (options.on_cpu() ? mode == Activations::k11 : mode == Activations::kFloat) continue;
    if (mode == Activations::k11 && checkpoint->config.experts > 0) continue;
    const bool rounded = mode != Activations::kFloat;
    const std::string suffix =
        rounded ? fmt::format(", {}-bit activations", session::name_of(mode)) : ", float activations";
    GoldenModel model(*checkpoint, mode, kv::Storage::kF32, options);
    model.feed(prompt, model.max_rows());
    if (options.on_cpu() && rounded) {
      check_rounded_activations(model, program, prompt, label + "16-bit activations, ", checks);
    } else {
      const double noise =
          device_noise(checkpoint->config, options, mode == Activations::k11 ? 11 : 16, prompt.size());
      const double allowed =
          rounded ? reference::allowed_error(program, prompt, {.noise = noise}).logits : float_allowed;
      checks.push_back(
          judge(label + "prompt logits" + suffix, relative_error(model.logits, want), allowed, kRelative));
    }
    // A token is only compared where the preference is clearer than the error of the logits themselves.
    const double slack = 2 * largest_error(model.logits, want);
    const double wrong = wrong_tokens(model, prompt, expected.tokens(key + "_greedy_tokens"), slack);
    checks.push_back(judge(label + "greedy tokens" + suffix, wrong, 0, kWrongTokens));
    checks.push_back(width_check(label + "widths 1..16" + suffix, model, prompt));
  }
}

std::vector<Check> verify_model(const std::string& folder, const VerifyOptions& options) {
  const Expected expected(folder);
  std::vector<Check> checks;
  if (expected.has("prompt_logits")) check_target(folder, expected, options, checks);
  for (const int bits : {8, 4}) {
    if (expected.has(fmt::format("mlx{}_logits", bits)))
      check_quantised(folder, bits, expected, options, checks);
  }
  if (expected.has("draft_tokens")) check_assistant(folder, expected, options, checks);
  if (expected.has("dflash_rounds")) check_dflash(folder, expected, options, checks);
  check_pictures(folder, expected, options, checks);
  if (expected.has("audio_logits")) skip(checks, "audio", "this build has no audio yet");
  return checks;
}

std::vector<Check> verify_tokenizer(const std::string& folder) {
  const std::string path = folder + "/cases.json";
  const Json cases = Json::parse(read_text_file(path), nullptr, false);
  if (!cases.is_array()) fail_file("{}: is not a JSON list of cases", path);
  const auto tokenizer = text::Tokenizer::load(folder + "/tokenizer.json");
  int wrong_ids = 0, wrong_text = 0;
  for (const auto& item : cases) {
    if (!item.is_object() || !item.contains("text") || !item.contains("ids") || !item.contains("decoded")) {
      fail_file("{}: a case lacks text, ids or decoded", path);
    }
    const auto ids = item["ids"].get<std::vector<int>>();
    if (tokenizer.encode(item["text"].get<std::string>()) != ids) ++wrong_ids;
    if (tokenizer.decode(ids) != item["decoded"].get<std::string>()) ++wrong_text;
  }
  const std::string count = fmt::format("wrong of {}", cases.size());
  return {judge("token ids", wrong_ids, 0, count.c_str()),
          judge("decoded text", wrong_text, 0, count.c_str())};
}

/// The template renders for the larger models; the small ones get no empty thought at the end. It leaves out
/// answers of tools that nobody called.
Check compare_prompts(const Json& cases, const std::string& path, bool small) {
  constexpr std::string_view kEmptyThought = "<|channel>thought\n<channel|>";
  int wrong = 0;
  for (const auto& item : cases) {
    for (const char* key : {"messages", "tools", "add_generation_prompt", "enable_thinking", "rendered"}) {
      if (!item.is_object() || !item.contains(key)) fail_file("{}: a case lacks {}", path, key);
    }
    if (!item["rendered"].is_string()) fail_file("{}: the prompt of a case is no text", path);
    auto want = item["rendered"].get<std::string>();
    if (small && want.ends_with(kEmptyThought)) want.erase(want.size() - kEmptyThought.size());
    const text::Conversation conversation{text::read_messages(item["messages"]),
                                          text::read_tools(item["tools"])};
    const auto prompt =
        text::render_chat(conversation, {.empty_thought_block = !small,
                                         .add_generation_prompt = item["add_generation_prompt"] == true,
                                         .thinking = item["enable_thinking"] == true,
                                         .skip_stray_answers = true});
    if (text::joined(prompt) != want) ++wrong;
  }
  return judge(small ? "chat prompts, E2B and E4B" : "chat prompts, 12B to 31B", wrong, 0,
               fmt::format("wrong of {}", cases.size()).c_str());
}

std::vector<Check> verify_chat(const std::string& folder) {
  const std::string path = folder + "/cases.json";
  const Json cases = Json::parse(read_text_file(path), nullptr, false);
  if (!cases.is_array() || cases.empty()) fail_file("{}: is not a JSON list of cases", path);
  try {
    return {compare_prompts(cases, path, false), compare_prompts(cases, path, true)};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBadFile) throw;
    fail_file("{}: {}", path, error.what());  // the fault is the file's, not the user's
  }
}

}  // namespace

std::vector<Check> verify_case(const std::string& folder, const VerifyOptions& options) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(folder)) fail_file("{}: is not a folder; give one golden case", folder);
  if (fs::exists(folder + "/expected.json")) return verify_model(folder, options);
  if (fs::exists(folder + "/cases.json") && fs::exists(folder + "/tokenizer.json"))
    return verify_tokenizer(folder);
  if (fs::exists(folder + "/cases.json")) return verify_chat(folder);
  fail_file("{}: is no golden case: it has neither expected.json nor cases.json", folder);
}

}  // namespace slip::conformance
