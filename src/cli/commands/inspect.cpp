// inspect: what a model is, what it costs and whether it fits, from its files alone.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands/command.h"
#include "cli/commands/pulling.h"
#include "cli/flags/model_options.h"
#include "cli/flags/parser.h"
#include "cli/terminal/output.h"
#include "session/chat_style.h"
#include "session/model_report.h"
#include "session/system_info.h"

namespace slip::cli {
namespace {

using session::CacheSize;
using session::ChatStyle;
using session::memory_info;
using session::memory_needed;
using session::MemoryInfo;
using session::ModelReport;
using session::report_on;
using session::WeightGroup;

using checkpoint::Checkpoint;
using nlohmann::ordered_json;

/// "16 heads of 256, 8 kv" for the first layer of a kind; empty when there is none.
std::string attention_text(const model::Config& config, model::LayerKind kind) {
  for (const model::LayerConfig& layer : config.layers) {
    if (layer.kind != kind) continue;
    return fmt::format("{} heads of {}, {} kv{}", layer.heads, layer.head_dim, layer.kv_heads,
                       layer.k_is_v ? ", K = V" : "");
  }
  return "";
}

int count_layers(const model::Config& config, model::LayerKind kind) {
  return static_cast<int>(
      std::count_if(config.layers.begin(), config.layers.end(),
                    [kind](const model::LayerConfig& layer) { return layer.kind == kind; }));
}

int count_shared(const model::Config& config) {
  int shared = 0;
  for (int i = 0; i < config.layer_count(); ++i) shared += config.owns_kv(i) ? 0 : 1;
  return shared;
}

std::string architecture_text(const Checkpoint& checkpoint, const ModelReport& report) {
  const model::Config& config = checkpoint.config;
  const int shared = count_shared(config);
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<14} {}\n", name, value);
  };
  line("model", checkpoint.path);
  line("architecture", fmt::format("{}, {}", config.model_type, config.kind_text()));
  line("format", fmt::format("{}, {} of files", checkpoint.format, bytes_text(checkpoint.file_bytes)));
  line("parameters", fmt::format("{} ({} multiplied per token)", count_text(report.parameters),
                                 count_text(report.active_parameters)));
  line("layers", fmt::format("{}: {} sliding (window {}), {} full{}", config.layer_count(),
                             count_layers(config, model::LayerKind::kSliding), config.window,
                             count_layers(config, model::LayerKind::kFull),
                             shared > 0 ? fmt::format("; {} share another layer's KV", shared) : ""));
  line("sliding", attention_text(config, model::LayerKind::kSliding));
  line("full", attention_text(config, model::LayerKind::kFull));
  line("sizes", fmt::format("hidden {}, mlp {}, vocabulary {}, context {}", config.hidden,
                            config.layers.empty() ? 0 : config.layers[0].intermediate, config.vocab,
                            config.max_positions));
  if (config.experts > 0) {
    line("experts", fmt::format("{} per layer, {} per token, each {} wide", config.experts,
                                config.experts_per_token, config.expert_intermediate));
  }
  line("chat", session::describe(session::chat_style(checkpoint.path, config)));
  line("per token", fmt::format("reads {} of weights", bytes_text(report.streamed_bytes)));
  return text;
}

std::string loaded_text(const Checkpoint& checkpoint, const ModelReport& report) {
  std::string text = "\nwill be loaded     matrices   parameters        bytes  stored as\n";
  for (const WeightGroup& group : report.groups) {
    text += fmt::format("  {:<16} {:>8} {:>12} {:>12}  {}\n", group.name, group.matrices,
                        count_text(group.parameters), bytes_text(group.bytes),
                        group.formats + (group.mapped ? " (rows read from the file as needed)" : ""));
  }
  if (checkpoint.not_loaded.empty()) return text;
  text += "\nwill not be loaded  tensors                     bytes  because\n";
  for (const checkpoint::NotLoaded& skipped : checkpoint.not_loaded) {
    text += fmt::format("  {:<16} {:>8} {:>12} {:>12}  {}\n", skipped.group, skipped.tensors, "",
                        bytes_text(skipped.bytes), skipped.reason);
  }
  return text;
}

std::string memory_text(const Checkpoint& checkpoint, const ModelReport& report, const MemoryInfo& memory) {
  std::string text = "\ncontext          KV cache     read per token   memory needed\n";
  for (const CacheSize& cache : report.caches) {
    const size_t needed = memory_needed(report, checkpoint.config, cache.positions);
    const char* fits = memory.available == 0 ? "" : needed <= memory.available ? "fits" : "does not fit";
    text += fmt::format("  {:>5}k     {:>12}     {:>14}    {:>12}  {}\n", cache.positions >> 10,
                        bytes_text(cache.bytes), bytes_text(cache.read_bytes), bytes_text(needed), fits);
  }
  text += fmt::format("memory present: {} of {} available\n", bytes_text(memory.available),
                      bytes_text(memory.total));
  return text;
}

ordered_json layers_json(const model::Config& config) {
  ordered_json layers = ordered_json::array();
  for (const model::LayerConfig& layer : config.layers) {
    layers.push_back({{"kind", layer.kind == model::LayerKind::kFull ? "full" : "sliding"},
                      {"heads", layer.heads},
                      {"kv_heads", layer.kv_heads},
                      {"head_dim", layer.head_dim},
                      {"intermediate", layer.intermediate},
                      {"k_is_v", layer.k_is_v},
                      {"kv_source", layer.kv_source}});
  }
  return layers;
}

ordered_json report_json(const Checkpoint& checkpoint, const ModelReport& report, const MemoryInfo& memory) {
  const model::Config& config = checkpoint.config;
  const ChatStyle chat = session::chat_style(checkpoint.path, config);
  ordered_json out = {
      {"model", checkpoint.path},
      {"model_type", config.model_type},
      {"kind", config.kind_text()},
      {"format", checkpoint.format},
      {"file_bytes", checkpoint.file_bytes},
      {"parameters", report.parameters},
      {"active_parameters", report.active_parameters},
      {"packed_bytes", report.packed_bytes},
      {"streamed_bytes", report.streamed_bytes},
      {"hidden", config.hidden},
      {"vocab", config.vocab},
      {"window", config.window},
      {"max_positions", config.max_positions},
      {"experts", config.experts},
      {"experts_per_token", config.experts_per_token},
      {"empty_thought_block", chat.empty_thought_block},
      {"chat_style_from", chat.origin},
      {"chat_template", chat.own == nullptr
                            ? ordered_json()
                            : ordered_json{{"file", chat.own->name()}, {"sha256", chat.sha256}}},
      {"layers", layers_json(config)},
      {"loaded", ordered_json::array()},
      {"not_loaded", ordered_json::array()},
      {"contexts", ordered_json::array()},
      {"memory_bytes", memory.total},
      {"memory_available_bytes", memory.available},
  };
  for (const WeightGroup& group : report.groups) {
    out["loaded"].push_back({{"group", group.name},
                             {"matrices", group.matrices},
                             {"parameters", group.parameters},
                             {"bytes", group.bytes},
                             {"mapped", group.mapped},
                             {"formats", group.formats}});
  }
  for (const checkpoint::NotLoaded& skipped : checkpoint.not_loaded) {
    out["not_loaded"].push_back({{"group", skipped.group},
                                 {"tensors", skipped.tensors},
                                 {"bytes", skipped.bytes},
                                 {"reason", skipped.reason}});
  }
  for (const CacheSize& cache : report.caches) {
    out["contexts"].push_back({{"positions", cache.positions},
                               {"kv_bytes", cache.bytes},
                               {"kv_read_bytes", cache.read_bytes},
                               {"memory_needed_bytes", memory_needed(report, config, cache.positions)}});
  }
  return out;
}

int run_inspect(const Arguments& args) {
  bool json = false;
  ModelOptions model;
  std::vector<std::string> words;
  Parser parser(inspect_command, "[MODEL] [--json]");
  parser.words({"", "MODEL", "folder, or name in the Hugging Face cache (default: models/tiny)"}, words, 0,
               1);
  add_model_option(parser, model);
  parser.flag("--json", json, "print one JSON object, with every layer");
  parser.footer("Reads the headers only: nothing is loaded, and it takes a moment for any size.");
  if (!parser.parse(args)) return kExitOk;

  if (!words.empty()) model.model = words[0];
  offer_pull(model);
  const auto checkpoint = checkpoint::open(model_folder(model));
  const ModelReport report = report_on(*checkpoint);
  const MemoryInfo memory = memory_info();
  if (json) {
    write_out(
        report_json(*checkpoint, report, memory).dump(2, ' ', false, ordered_json::error_handler_t::replace) +
        "\n");
  } else {
    write_out(architecture_text(*checkpoint, report) + loaded_text(*checkpoint, report) +
              memory_text(*checkpoint, report, memory));
  }
  return kExitOk;
}

}  // namespace

const Command inspect_command{
    "inspect", "Show what a model is, what it costs and whether it fits, without loading it", run_inspect};

}  // namespace slip::cli
