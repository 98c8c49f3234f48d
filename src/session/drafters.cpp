#include "session/drafters.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/human.h"
#include "checkpoint/draft_kind.h"
#include "checkpoint/requantise.h"
#include "hub/local.h"
#include "kv/layout.h"
#include "session/model_report.h"
#include "speculate/dflash.h"
#include "speculate/mtp.h"
#include "speculate/suffix.h"

namespace slip::session {
namespace {

using checkpoint::DraftKind;

constexpr size_t kLookupBytes = 24;  // per token of a text that is looked up in (speculate/suffix.h)

/// 0 = as stored. A drafter as coarse as its target: of 4 bits beside 4, of 8 beside more, as it is beside
/// floats.
int bits_for(const DraftOptions& options, const checkpoint::Checkpoint& target) {
  const tensor::Matrix& head = target.weights.output_head();
  switch (options.bits) {
    case DraftBits::k4: return 4;
    case DraftBits::k8: return 8;
    case DraftBits::kAsStored: return 0;
    case DraftBits::kAuto: break;
  }
  if (head.encoding != tensor::Encoding::kAffine) return 0;
  return head.bits <= 4 ? 4 : 8;
}

void open_assistant(Drafters& drafters, const std::string& folder, const DraftOptions& options,
                    const checkpoint::Checkpoint& target) {
  if (drafters.assistant != nullptr) {
    fail_usage("--draft-model names two assistants, {} and {}; give one of them", drafters.assistant->path,
               folder);
  }
  drafters.assistant = checkpoint::open_assistant(folder, target.config);
  if (const int bits = bits_for(options, target); bits > 0) checkpoint::requantise(*drafters.assistant, bits);
}

void open_dflash(Drafters& drafters, const std::string& folder, const DraftOptions& options,
                 const checkpoint::Checkpoint& target) {
  if (drafters.dflash != nullptr) {
    fail_usage("--draft-model names two DFlash drafters, {} and {}; give one of them", drafters.dflash->path,
               folder);
  }
  drafters.dflash = checkpoint::open_dflash(folder, target.config);
  if (const int bits = bits_for(options, target); bits > 0) checkpoint::requantise(*drafters.dflash, bits);
}

void open_named(Drafters& drafters, const std::string& name, const DraftOptions& options,
                const checkpoint::Checkpoint& target) {
  const std::string folder = hub::resolve_model(name);
  switch (checkpoint::kind_of_draft_folder(folder)) {
    case DraftKind::kAssistant:
      if (options.kind == Drafting::kDflash)
        fail_usage("{} is an assistant; use --draft-kind mtp or auto", folder);
      return open_assistant(drafters, folder, options, target);
    case DraftKind::kDflash:
      if (options.kind == Drafting::kMtp)
        fail_usage("{} is a DFlash drafter; use --draft-kind dflash or auto", folder);
      return open_dflash(drafters, folder, options, target);
    case DraftKind::kTarget:
      fail_file("{}: is a whole Gemma 4 model; --draft-model takes an assistant or a DFlash drafter", folder);
    case DraftKind::kUnknown: fail_file("{}: is neither a Gemma 4 assistant nor a DFlash drafter", folder);
  }
}

/// The model's own assistant; "" when there is none or none is wanted.
std::string found_assistant(const DraftOptions& options, const std::string& model,
                            const std::string& folder) {
  if (options.kind == Drafting::kDflash) return "";
  const std::string found = hub::find_assistant(model);
  return found.empty() ? hub::find_assistant(folder) : found;
}

/// The DFlash drafter that a pull brought along; an assistant goes before it.
std::string found_dflash(const DraftOptions& options, const std::string& model, const std::string& folder) {
  if (options.kind == Drafting::kMtp) return "";
  const std::string found = hub::find_dflash(model);
  return found.empty() ? hub::find_dflash(folder) : found;
}

std::string depth_text(const DraftOptions& options) {
  return options.depth < 0 ? "depth by measurement" : fmt::format("depth {}", options.depth);
}

}  // namespace

Drafters open_drafters(const DraftOptions& options, const std::string& model, const std::string& folder,
                       const checkpoint::Checkpoint& target) {
  validate(options);
  Drafters drafters;
  if (options.kind == Drafting::kNone) {
    drafters.description = "none, as told";
    return drafters;
  }
  std::string origin, missing;
  if (options.kind != Drafting::kSuffix) {
    for (const std::string& name : options.models) open_named(drafters, name, options, target);
    if (options.models.empty()) {
      if (const std::string found = found_assistant(options, model, folder); !found.empty()) {
        open_assistant(drafters, found, options, target);
        origin = "found for the model, ";
      } else if (const std::string dflash = found_dflash(options, model, folder); !dflash.empty()) {
        open_dflash(drafters, dflash, options, target);
        origin = "found for the model, ";
      } else if (options.kind == Drafting::kMtp) {
        fail_usage(
            "--draft-kind mtp needs an assistant, and there is none beside {} nor in the Hugging Face cache "
            "under its name with -assistant; use --draft-model",
            folder);
      } else {
        missing = "; no assistant was found for the model";
      }
    }
  }
  std::vector<std::string> parts;
  if (drafters.assistant != nullptr) {
    parts.push_back(fmt::format("mtp ({}, {}{})", path_text(drafters.assistant->path), origin,
                                drafters.assistant->format));
  }
  if (drafters.dflash != nullptr)
    parts.push_back(
        fmt::format("dflash ({}, {}{})", path_text(drafters.dflash->path), origin, drafters.dflash->format));
  drafters.suffix = options.kind == Drafting::kAuto || options.kind == Drafting::kSuffix;
  if (drafters.suffix) parts.push_back("suffix");
  drafters.description = fmt::format("{}, {}{}", fmt::join(parts, " and "), depth_text(options), missing);
  return drafters;
}

DraftMemory draft_memory(const Drafters& drafters) {
  DraftMemory memory;
  if (drafters.assistant != nullptr) {
    const model::AssistantWeights& weights = drafters.assistant->weights;
    memory.weights += packed_bytes(weights.text);
    for (const model::Matrix* matrix :
         {&weights.pre_projection, &weights.post_projection, &weights.centroids})
      if (matrix->present()) memory.weights += model::streamed_bytes(*matrix);
  }
  std::optional<kv::Layout> cache;
  if (drafters.dflash != nullptr) {
    const model::DflashWeights& weights = drafters.dflash->weights;
    memory.weights += packed_bytes(weights.text) + model::streamed_bytes(weights.fc);
    cache.emplace(drafters.dflash->config.text, kv::Storage::kBf16, drafters.dflash->config.block);
  }
  memory.sequence_at = [cache, suffix = drafters.suffix](int64_t tokens) {
    size_t bytes = cache ? cache->bytes_at(tokens) : 0;
    if (suffix) bytes += kLookupBytes * static_cast<size_t>(tokens);
    return bytes;
  };
  return memory;
}

void load_drafters(Drafters& drafters, const DraftOptions& options, backend::Backend& backend,
                   int sequences) {
  if (options.kind == Drafting::kNone) return;
  backend::DraftOptions network;
  std::vector<std::unique_ptr<speculate::Drafter>> kinds;
  if (drafters.assistant != nullptr) {
    network.max_rows = sequences;
    drafters.assistant_network =
        backend.load_assistant(drafters.assistant->config, drafters.assistant->weights, network);
    kinds.push_back(std::make_unique<speculate::MtpDrafter>(*drafters.assistant_network, options.position));
  }
  if (drafters.dflash != nullptr) {
    backend.set_taps(drafters.dflash->config.taps);
    network.max_rows = sequences * drafters.dflash->config.block;
    drafters.dflash_network = backend.load_dflash(drafters.dflash->config, drafters.dflash->weights, network);
    kinds.push_back(std::make_unique<speculate::DflashDrafter>(*drafters.dflash_network));
  }
  if (options.kind == Drafting::kAuto || options.kind == Drafting::kSuffix)
    kinds.push_back(std::make_unique<speculate::SuffixDrafter>(backend.config().placeholder_ids));
  drafters.speculator = std::make_unique<speculate::Speculator>(
      std::move(kinds), backend.config().vocab, speculate::DepthOptions{.fixed = options.depth});
}

}  // namespace slip::session
