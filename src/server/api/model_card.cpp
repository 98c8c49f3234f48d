#include "server/api/model_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/human.h"
#include "kv/page_key.h"
#include "media/fit.h"
#include "session/build_info.h"
#include "session/model_report.h"

namespace slip::server::api {
namespace {

/// What a folder holds, without saying where it lies: clients need not know. The Hugging Face cache keeps a model in
/// models--OWNER--NAME/snapshots/REVISION.
std::string label_of(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (folder.parent_path().filename() != "snapshots") return folder.filename().string();
  std::string name = folder.parent_path().parent_path().filename().string();
  if (!name.starts_with("models--")) return folder.filename().string();
  name.erase(0, std::string_view("models--").size());
  if (const size_t dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
  return name;
}

/// The model's own sentence, its paths shortened.
std::string drafting_text(const session::Model& model) {
  std::string text = model.drafting_text();
  for (const std::string& path : model.drafter_paths()) {
    const std::string shown = path_text(path);
    if (const size_t at = text.find(shown); at != std::string::npos)
      text.replace(at, shown.size(), label_of(path));
  }
  return text;
}

/// The last part of a path or of a name with an owner.
std::string last_part(std::string name) {
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

// Headers and ends of all files, with their sizes: whoever changes weights changes one of them, and nobody waits for
// gigabytes to be read.
std::string fingerprint_of(const checkpoint::Checkpoint& checkpoint) {
  constexpr size_t kLooked = size_t{1} << 20;
  std::string seen = checkpoint.format;
  for (const auto& file : checkpoint.files) {
    const auto bytes = file->bytes();
    seen += fmt::format("|{}|", bytes.size());
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const size_t head = std::min(bytes.size(), kLooked), tail = std::min(bytes.size() - head, kLooked);
    seen.append(text, head);
    seen.append(text + bytes.size() - tail, tail);
  }
  const kv::Salt hash = kv::salt_of(seen);
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

bool of_other_maker(std::string_view name) {
  return name.starts_with("claude-") || name.starts_with("gpt-");
}

Json sampling_json(const checkpoint::GenerationConfig& defaults) {
  return {
      {"temperature", shortest(defaults.do_sample ? defaults.temperature : 0.0f)},
      {"top_k", std::max(defaults.top_k, 0)},
      {"top_p", shortest(defaults.top_p > 0 ? defaults.top_p : 1.0f)},
      {"min_p", shortest(std::max(defaults.min_p, 0.0f))},
      {"repetition_penalty", shortest(defaults.repetition_penalty > 0 ? defaults.repetition_penalty : 1.0f)}};
}

}  // namespace

ModelCard::ModelCard(const session::Model& model, int context, Options options, bool sees)
    : model_(model),
      options_(std::move(options)),
      id_(options_.served_names.empty() ? last_part(model.name()) : options_.served_names.front()),
      fingerprint_(fingerprint_of(model.checkpoint())),
      names_{id_, model.name(), last_part(model.name())},
      context_(context),
      sees_(sees),
      created_(std::time(nullptr)) {
  names_.insert(names_.end(), options_.served_names.begin(), options_.served_names.end());
}

bool ModelCard::answers_to(std::string_view name) const {
  if (name.empty() || std::find(names_.begin(), names_.end(), name) != names_.end()) return true;
  return !options_.strict && of_other_maker(name);
}

Json ModelCard::entry() const {
  const bool drafts = model_.drafts();
  return {{"id", id_},
          {"object", "model"},
          {"created", created_},
          {"owned_by", "slipstream"},
          {"root", last_part(model_.name())},
          {"parent", nullptr},
          {"max_model_len", context_},
          {"context_length", context_},
          {"input_modalities", inputs()},
          {"output_modalities", Json::array({"text"})},
          {"drafter", drafts ? Json(drafting_text(model_)) : Json()}};
}

Json ModelCard::inputs() const {
  return sees_ ? Json::array({"text", "image"}) : Json::array({"text"});
}

Json ModelCard::properties() const {
  const auto& checkpoint = model_.checkpoint();
  const session::ModelReport report = session::report_on(checkpoint);
  return {{"model", id_},
          {"model_path", last_part(model_.name())},
          {"build", fmt::format("{} {}", session::build_version(), session::build_commit())},
          {"device", model_.device_text()},
          {"weights",
           {{"format", checkpoint.format},
            {"parameters", report.parameters},
            {"bytes", report.packed_bytes},
            {"fingerprint", fingerprint_}}},
          {"drafting", drafting_text(model_)},
          {"n_ctx", context_},
          {"max_model_len", context_},
          {"vocab", model_.config().vocab},
          {"default_generation_settings",
           {{"n_ctx", context_}, {"params", sampling_json(checkpoint.generation)}}},
          {"modalities", {{"vision", sees_}, {"audio", false}, {"video", false}}},
          {"accepted_inputs", inputs()},
          {"image_budgets", sees_ ? Json(media::kBudgets) : Json::array()},
          {"chat", model_.is_chat()}};
}

}  // namespace slip::server::api
