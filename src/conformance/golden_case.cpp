#include "conformance/golden_support.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
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

std::vector<float> reference_logits(const checkpoint::Checkpoint& checkpoint, std::span<const int> prompt,
                                    bool bf16_cache) {
  const model::Program program = model::build_program(checkpoint.config, checkpoint.weights);
  reference::Forward forward(program);
  forward.bf16_cache = bf16_cache;
  reference::Sequence sequence;
  std::vector<float> logits;
  for (const int token : prompt) {
    const auto result = forward.step(sequence, token);
    logits.insert(logits.end(), result.logits.begin(), result.logits.end());
  }
  return logits;
}

Check reference_check(const checkpoint::Checkpoint& checkpoint, std::span<const int> prompt,
                      std::span<const float> want, const std::string& label) {
  const double error = largest_error(reference_logits(checkpoint, prompt, false), want);
  return judge(label + "prompt logits, reference", error, 5e-3, kLargest);
}

void skip(std::vector<Check>& checks, const char* name, const char* why) {
  checks.push_back({name, 0, 0, "", Result::kSkipped, why});
}

void check_target(const std::string& folder, const Expected& expected, const VerifyOptions& options,
                  std::vector<Check>& checks) {
  const auto checkpoint = checkpoint::open(folder + "/target");
  const std::vector<int> prompt = prompt_of(expected, *checkpoint);
  const std::vector<float> want = expected.floats("prompt_logits");
  if (want.size() != prompt.size() * static_cast<size_t>(checkpoint->config.vocab)) {
    fail_file("{}/expected.safetensors: prompt_logits does not have one row of logits per prompt id", folder);
  }
  checks.push_back(reference_check(*checkpoint, prompt, want, ""));

  GoldenModel exact(*checkpoint, Activations::kFloat, kv::Storage::kF32, options);
  exact.feed(prompt, exact.max_rows());
  checks.push_back(compare("prompt logits", exact.logits, want, 5e-3, options));
  checks.push_back(compare("last hidden", exact.hidden, expected.floats("last_hidden"), 5e-3, options));
  // A token is only compared where the preference is clearer than the error of the logits themselves.
  const double slack = options.on_cpu() ? 0 : 2 * largest_error(exact.logits, want);
  checks.push_back(judge("greedy tokens",
                         wrong_tokens(exact, prompt, expected.tokens("greedy_tokens"), slack), 0,
                         kWrongTokens));
  checks.push_back(width_check("widths 1..16 give the same bits", exact, prompt));

  // Serving keeps K and V as bf16, which the golden results do not; so compare with our reference rounding
  // the same way.
  GoldenModel served(*checkpoint, Activations::kFloat, kv::Storage::kBf16, options);
  served.feed(prompt, served.max_rows());
  const double rounded = relative_error(served.logits, reference_logits(*checkpoint, prompt, true));
  if (options.on_cpu() || checkpoint->config.experts == 0) {
    checks.push_back(judge("bf16 cache, against the reference", rounded, 1.5e-2, kRelative));
  } else {
    skip(checks, "bf16 cache, against the reference",
         "the last bit of a key, rounded, becomes another expert of these random weights");
  }
  checks.push_back(width_check("widths 1..16, bf16 cache", served, prompt));
}

void check_quantised(const std::string& folder, int bits, const Expected& expected,
                     const VerifyOptions& options, std::vector<Check>& checks) {
  const std::string key = fmt::format("mlx{}", bits), label = key + " ";
  const auto checkpoint = checkpoint::open(folder + "/target-" + key);
  const std::vector<int> prompt = prompt_of(expected, *checkpoint);
  const std::vector<float> want = expected.floats(key + "_logits");
  checks.push_back(reference_check(*checkpoint, prompt, want, label));
  for (const Activations mode : {Activations::kFloat, Activations::k16, Activations::k11}) {
    // What the device has: a GPU 11 bits where no experts are chosen (backend/cuda/device_weights.cpp).
    if (options.on_cpu() ? mode == Activations::k11 : mode == Activations::kFloat) continue;
    if (mode == Activations::k11 && checkpoint->config.experts > 0) continue;
    const bool rounded = mode != Activations::kFloat;
    const std::string suffix =
        rounded ? fmt::format(", {}-bit activations", session::name_of(mode)) : ", float activations";
    GoldenModel model(*checkpoint, mode, kv::Storage::kF32, options);
    model.feed(prompt, model.max_rows());
    const double error = relative_error(model.logits, want);
    checks.push_back(judge(label + "prompt logits" + suffix, error, rounded ? 1.5e-2 : 1e-3, kRelative));
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
  check_target(folder, expected, options, checks);
  for (const int bits : {8, 4}) {
    if (expected.has(fmt::format("mlx{}_logits", bits)))
      check_quantised(folder, bits, expected, options, checks);
  }
  if (expected.has("draft_tokens")) check_assistant(folder, expected, options, checks);
  if (expected.has("dflash_rounds")) check_dflash(folder, expected, options, checks);
  if (expected.has("image_logits")) skip(checks, "image", "this build has no images yet");
  if (expected.has("video_logits")) skip(checks, "video", "this build has no video yet");
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
