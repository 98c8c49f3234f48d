// bench: how fast a model is on this machine, for a checkpoint or for made-up weights of a published shape.
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/vision.h"
#include "cli/commands/bench_run.h"
#include "cli/commands/bench_speculation.h"
#include "cli/commands/bench_trace.h"
#include "cli/commands/bench_vision.h"
#include "cli/commands/command.h"
#include "cli/commands/pulling.h"
#include "cli/flags/backend_options.h"
#include "cli/flags/draft_options.h"
#include "cli/flags/model_options.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "session/build_info.h"
#include "session/device.h"
#include "session/system_info.h"
#include "synth/shapes.h"
#include "synth/synthetic.h"
#include "synth/synthetic_vision.h"

namespace slip::cli {

namespace {

using nlohmann::ordered_json;
using session::Drafting;

struct BenchOptions {
  ModelOptions model;
  std::string shape;
  int bits = 4;
  int group = 64;
  BackendOptions backend;
  std::string widths, contexts, sequences;
  BenchPlan plan;
  std::optional<double> acceptance;
  DraftOptions draft;
  int assistant_bits = 0;  // 0 = like the model
  SpeculationPlan speculation;
  std::string trace;
  bool vision = false;
  std::string budgets;
  VisionPlan vision_plan;
  bool json = false;
};

std::vector<int> parse_list(const std::string& flag, const std::string& text, int least, int most) {
  std::vector<int> list;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    list.push_back(static_cast<int>(parse_integer(flag, text.substr(at, comma - at), least, most)));
    at = comma + 1;
  }
  return list;
}

bool parse_bench(const Arguments& args, BenchOptions& options) {
  Parser parser(bench_command, "[-m MODEL | --shape NAME --bits 4|8|16]");
  parser.group("Model");
  add_model_option(parser, options.model);
  parser.text({"--shape", "NAME", "made-up weights of a published shape: e2b, e4b, 12b, 26b-a4b, 31b"},
              options.shape);
  parser.integer({"--bits", "N", "of the made-up weights: 3, 4, 5, 6, 8 or 16 (default 4)"}, 3, 16,
                 options.bits);
  parser.integer({"--group", "N", "columns per scale: 32, 64 or 128 (default 64)"}, 32, 128, options.group);
  parser.group("Measurements");
  parser.text({"--widths", "LIST", "rows checked together (default 1,2,4,8,16)"}, options.widths);
  parser.text({"--contexts", "LIST", "positions in the cache before decoding (default 0)"}, options.contexts);
  parser.text({"--sequences", "LIST", "decoded together, at the first context (default none)"},
              options.sequences);
  parser.integer({"--prompt", "N", "prompt length to time, 0 for none (default 512)"}, 0, 1 << 20,
                 options.plan.prompt);
  parser.integer({"--steps", "N", "decode steps per repetition (default 8)"}, 1, 100000,
                 options.plan.decode_steps);
  parser.integer({"--repeats", "N", "repetitions, taken in turns (default 5)"}, 1, 1000,
                 options.plan.repeats);
  parser.flag("--phases", options.plan.phases,
              "time the phases of a step at every width and number of sequences");
  parser.text({"--trace", "FILE", "write them, layer by layer, for Chrome's tracing page or Perfetto"},
              options.trace);
  parser.flag("--vision", options.vision, "the tower alone: time and share of the peak for a picture");
  parser.text({"--image-tokens", "LIST", "with --vision (default 70,280,1120)"}, options.budgets);
  parser.group("Speculation, on made-up weights of a model and an assistant");
  parser.number({"--acceptance", "P", "share of tokens the assistant guesses right, 0 to 1"}, 0, 1,
                options.acceptance);
  parser.integer({"--tokens", "N", "per answer (default 128)"}, 2, 100000, options.speculation.tokens);
  parser.choice<Drafting>({"--draft-kind", "KIND", "auto, mtp or suffix (default auto)"},
                          {{"auto", Drafting::kAuto}, {"mtp", Drafting::kMtp}, {"suffix", Drafting::kSuffix}},
                          options.draft.kind);
  add_draft_depth(parser, options.draft);
  parser.choice<int>({"--draft-bits", "N", "of the assistant: 4, 8 or 16 (default: like the model)"},
                     {{"4", 4}, {"8", 8}, {"16", 16}}, options.assistant_bits);
  parser.group("Running");
  parser.flag("--json", options.json, "print JSON instead of markdown");
  add_backend_options(parser, options.backend);
  parser.footer("Figures are medians; the share is of the read bandwidth measured in the same run.");
  if (!parser.parse(args)) return false;
  if (!options.trace.empty()) options.plan.phases = true;
  if (!options.widths.empty()) options.plan.widths = parse_list("--widths", options.widths, 1, 512);
  if (!options.contexts.empty())
    options.plan.contexts = parse_list("--contexts", options.contexts, 0, 1 << 20);
  if (!options.budgets.empty())
    options.vision_plan.budgets = parse_list("--image-tokens", options.budgets, 1, 1120);
  options.vision_plan.repeats = std::min(options.plan.repeats, options.vision_plan.repeats);
  if (options.vision && options.backend.device == session::DeviceKind::kCuda)
    fail_usage("--vision measures towers on the CPU, where they run; leave out --device cuda");
  if (!options.sequences.empty())
    options.plan.sequences = parse_list("--sequences", options.sequences, 1, 128);
  if (!options.shape.empty() && !options.model.model.empty())
    fail_usage("bench measures either -m MODEL or --shape NAME; leave one of them out");
  if (options.acceptance && options.shape.empty())
    fail_usage("--acceptance is measured on made-up weights; use --shape NAME instead of -m");
  return true;
}

synth::SynthOptions synth_options(const BenchOptions& options) {
  synth::SynthOptions synth;
  synth.shape = options.shape;
  synth.bits = options.bits;
  synth.group = options.group;
  synth.acceptance = options.acceptance;
  synth.assistant_bits = options.bits <= 4 ? 4 : options.bits <= 8 ? 8 : 16;
  if (options.assistant_bits > 0) synth.assistant_bits = options.assistant_bits;
  return synth;
}

/// What is measured: a checkpoint, made up or from files, on a device.
struct BenchModel {
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;
  std::unique_ptr<backend::Backend> backend;
  std::string device_note;
};

BenchModel load_model(const BenchOptions& options) {
  if (options.shape.empty()) offer_pull(options.model);
  BenchModel model;
  model.checkpoint = options.shape.empty() ? checkpoint::open(model_folder(options.model))
                                           : synth::synthesize(synth_options(options));
  ProgressBar bar("loading");
  session::LoadedBackend loaded = session::load_backend(
      *model.checkpoint, options.backend, [&bar](size_t done, size_t total) { bar.update(done, total); });
  model.backend = std::move(loaded.backend);
  model.device_note = std::move(loaded.note);
  return model;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

struct Report {
  const BenchModel& model;
  const BenchResult& result;
  const BenchPlan& plan;

  double share(double bytes, double seconds) const { return bytes / seconds / result.bandwidth; }

  std::string markdown() const {
    const session::CpuInfo cpu = session::cpu_info();
    std::string text =
        fmt::format("{}, {} on {}, slipstream {} {}, {}\n", model.checkpoint->path, model.checkpoint->format,
                    cpu.name, session::build_version(), session::build_commit(), today());
    const std::string note = model.device_note.empty() ? "" : fmt::format(" ({})", model.device_note);
    text += fmt::format("{}{}; {:.3f} GB of weights read per token, {:.2f} GB held\n",
                        model.backend->description(), note,
                        static_cast<double>(model.backend->streamed_bytes()) / 1e9,
                        static_cast<double>(model.backend->resident_bytes()) / 1e9);
    text +=
        fmt::format("read bandwidth {:.1f} GB/s (median of {}; {:.1f} to {:.1f})\n\n", result.bandwidth / 1e9,
                    plan.repeats, result.bandwidth_low / 1e9, result.bandwidth_high / 1e9);
    text += "| measurement | tok/s | ms per step | GB/s | share of bandwidth |\n|---|---|---|---|---|\n";
    for (const DecodeResult& at : result.decode) {
      text +=
          fmt::format("| decode at {} | {:.2f} | {:.2f} | {:.1f} | {:.0f} % |\n", at.context, 1 / at.seconds,
                      at.seconds * 1e3, at.bytes / at.seconds / 1e9, 100 * share(at.bytes, at.seconds));
    }
    if (result.prompt > 0) {
      const double per_token = result.prompt_seconds / result.prompt;
      text +=
          fmt::format("| prompt of {} | {:.1f} | {:.2f} per token | | {:.1f} times decode |\n", result.prompt,
                      1 / per_token, per_token * 1e3, result.decode[0].seconds / per_token);
    }
    text += width_table();
    for (const WidthResult& at : result.widths)
      text += phase_table(fmt::format("at width {}", at.width), at.phases);
    text += sequence_table();
    for (const SequencesResult& at : result.sequences)
      text += phase_table(fmt::format("with {} sequence{}", at.count, at.count == 1 ? "" : "s"), at.phases);
    return text;
  }

  std::string width_table() const {
    if (result.widths.empty()) return "";
    std::string text = "\n| width | ms per step | over width 1 |\n|---|---|---|\n";
    const double base = result.widths[0].seconds;
    for (const WidthResult& at : result.widths) {
      const std::string ratio = result.widths[0].width == 1 ? fmt::format("{:.2f}", at.seconds / base) : "";
      text += fmt::format("| {} | {:.2f} | {} |\n", at.width, at.seconds * 1e3, ratio);
    }
    return text;
  }

  /// Nothing where they were not timed.
  std::string phase_table(const std::string& when,
                          const std::vector<backend::Backend::PhaseTime>& phases) const {
    if (phases.empty()) return "";
    std::string text =
        fmt::format("\n| phase {} | ms | MB of weights | GB/s | share |\n|---|---|---|---|---|\n", when);
    for (const auto& phase : backend::by_kind(phases)) {
      const auto bytes = static_cast<double>(phase.bytes);
      text += fmt::format("| {} | {:.3f} | ", phase.name, phase.seconds * 1e3);
      text += bytes > 0 ? fmt::format("{:.1f} | {:.1f} | {:.0f} % |\n", bytes / 1e6,
                                      bytes / phase.seconds / 1e9, 100 * share(bytes, phase.seconds))
                        : "- | - | - |\n";
    }
    return text;
  }

  std::string sequence_table() const {
    if (result.sequences.empty()) return "";
    std::string text = "\n| sequences | ms per step | tok/s together | over one |\n|---|---|---|---|\n";
    const double one = result.sequences[0].tokens_per_second();
    for (const SequencesResult& at : result.sequences) {
      text += fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} |\n", at.count, at.seconds * 1e3,
                          at.tokens_per_second(), at.tokens_per_second() / one);
    }
    return text;
  }

  ordered_json json() const {
    const session::CpuInfo cpu = session::cpu_info();
    ordered_json out = {{"model", model.checkpoint->path},
                        {"format", model.checkpoint->format},
                        {"cpu", cpu.name},
                        {"settings", model.backend->description()},
                        {"version", session::build_version()},
                        {"commit", session::build_commit()},
                        {"date", today()},
                        {"streamed_bytes", model.backend->streamed_bytes()},
                        {"resident_bytes", model.backend->resident_bytes()},
                        {"read_bandwidth", result.bandwidth},
                        {"decode", ordered_json::array()},
                        {"widths", ordered_json::array()}};
    for (const DecodeResult& at : result.decode) {
      out["decode"].push_back({{"context", at.context},
                               {"tokens_per_second", 1 / at.seconds},
                               {"bytes_per_second", at.bytes / at.seconds},
                               {"share_of_bandwidth", share(at.bytes, at.seconds)}});
    }
    const auto add_phases = [](ordered_json& to, const std::vector<backend::Backend::PhaseTime>& phases) {
      for (const auto& phase : backend::by_kind(phases))
        to["phases"].push_back({{"phase", phase.name}, {"seconds", phase.seconds}, {"bytes", phase.bytes}});
    };
    for (const WidthResult& at : result.widths) {
      out["widths"].push_back({{"width", at.width}, {"seconds_per_step", at.seconds}});
      add_phases(out["widths"].back(), at.phases);
    }
    for (const SequencesResult& at : result.sequences) {
      out["sequences"].push_back({{"count", at.count},
                                  {"seconds_per_step", at.seconds},
                                  {"tokens_per_second", at.tokens_per_second()}});
      add_phases(out["sequences"].back(), at.phases);
    }
    if (result.prompt > 0) {
      out["prompt"] = {{"tokens", result.prompt},
                       {"tokens_per_second", result.prompt / result.prompt_seconds}};
    }
    return out;
  }
};

/// The assistant is made beside the model; what the plain benchmark measures is left out.
int run_pair(const BenchOptions& options, BenchModel& model) {
  session::Drafters drafters;
  if (options.draft.kind != Drafting::kSuffix)
    drafters.assistant = synth::synthesize_assistant(synth_options(options));
  load_drafters(drafters, options.draft, *model.backend, 1);
  const InterruptGuard guard;
  SpeculationPlan plan = options.speculation;
  plan.repeats = options.plan.repeats;
  const double bandwidth = model.backend->measure_read_bandwidth();
  const auto results =
      run_speculation(*model.backend, drafters, plan, [&guard] { return guard.interrupted(); });
  const std::string depth = options.draft.depth < 0 ? "auto" : std::to_string(options.draft.depth);
  const double bandwidth_after = model.backend->measure_read_bandwidth();
  write_out(options.json
                ? speculation_json(results).dump(2) + "\n"
                : fmt::format("{}, {} on {}, slipstream {} {}, {}\n{}\nassistant {}, acceptance {}, draft "
                              "kind {}, depth {}; read bandwidth {:.1f} GB/s before, {:.1f} after\n{}",
                              model.checkpoint->path, model.checkpoint->format, session::cpu_info().name,
                              session::build_version(), session::build_commit(), today(),
                              model.backend->description(),
                              drafters.assistant ? drafters.assistant->format : "none", *options.acceptance,
                              session::name_of(options.draft.kind), depth, bandwidth / 1e9,
                              bandwidth_after / 1e9, speculation_table(results)));
  return kExitOk;
}

int run_tower(const BenchOptions& options) {
  const InterruptGuard guard;
  const auto measure = [&](const model::VisionConfig& config, const model::VisionWeights& weights) {
    const VisionReport report = run_vision(config, weights, options.backend, options.vision_plan,
                                           [&guard] { return guard.interrupted(); });
    write_out(options.json ? report.json().dump(2) + "\n"
                           : fmt::format("{} on {}, slipstream {} {}, {}\n{}",
                                         options.shape.empty() ? model_folder(options.model)
                                                               : "made-up " + options.shape,
                                         session::cpu_info().name, session::build_version(),
                                         session::build_commit(), today(), report.markdown()));
    return kExitOk;
  };
  if (!options.shape.empty()) {
    const auto made = synth::synthesize_vision(options.shape);
    return measure(made->config, made->weights);
  }
  const auto checkpoint = checkpoint::open(model_folder(options.model));
  const auto vision = checkpoint::open_vision(*checkpoint);
  if (!vision) fail_usage("{}: reads text alone, so there is no tower to measure", checkpoint->path);
  return measure(vision->config, vision->weights);
}

int run_command(const Arguments& args) {
  BenchOptions options;
  if (!parse_bench(args, options)) return kExitOk;
  if (options.vision) return run_tower(options);
  TraceFile trace(options.trace);
  BenchModel model = load_model(options);
  if (options.acceptance) return run_pair(options, model);
  const InterruptGuard guard;
  const BenchResult result =
      run_bench(*model.backend, options.plan, [&guard] { return guard.interrupted(); });
  const Report report{model, result, options.plan};
  trace.write(result.widths);
  write_out(options.json ? report.json().dump(2) + "\n" : report.markdown());
  return kExitOk;
}

}  // namespace

extern const Command bench_command{"bench", "Measure decoding, prompts and widths on this machine",
                                   run_command};

}  // namespace slip::cli
