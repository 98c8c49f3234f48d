// synth: a checkpoint folder of random weights in a published (or tiny) shape, to try speed and memory before
// downloading anything, and to feed tests; or a pair of target and assistant that agree on a chosen share of
// tokens, to try speculation. The same options give the same bytes on every machine.
#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "cli/commands/command.h"
#include "cli/flags/parser.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "synth/shapes.h"
#include "synth/synthetic.h"
#include "synth/writer.h"

namespace slip::cli {
namespace {

struct SynthArguments {
  synth::SynthOptions synth;
  synth::WriteOptions write;
  std::string layout = "auto";
  std::string shard_size;
  bool assistant = false;
  std::optional<int> assistant_bits;
  std::vector<std::string> out;
};

bool parse(const Arguments& args, SynthArguments& options) {
  Parser parser(synth_command, "--shape SHAPE [OPTIONS] OUT");
  parser.words({"", "OUT", "folder to write; made if it does not exist"}, options.out, 1, 1);
  options.synth.shape.clear();
  parser.choice(
      {"--shape", "SHAPE", "e2b, e4b, 12b, 26b-a4b, 31b; tiny-e2b, tiny-dense, tiny-moe, tiny-unified"},
      synth::shape_names(), options.synth.shape);
  parser.integer({"--bits", "N", "bits per weight: 3, 4, 5, 6, 8 or 16 (default 4)"}, 3, 16,
                 options.synth.bits);
  parser.integer({"--group", "N", "weights that share a scale: 32, 64 or 128 (default 64)"}, 32, 128,
                 options.synth.group);
  parser.choice({"--layout", "NAME", "hf or mlx (default: hf at 16 bits, mlx below)"}, {"auto", "hf", "mlx"},
                options.layout);
  parser.integer({"--seed", "N", "other weights of the same shape (default 1)"}, 0, INT64_MAX,
                 options.synth.seed);
  parser.flag("--assistant", options.assistant, "also write its drafter, to OUT-assistant");
  parser.integer({"--assistant-bits", "N", "4, 8 or 16 (default 16)"}, 4, 16, options.assistant_bits);
  parser.number({"--acceptance", "P", "share of tokens, 0 to 1, on which the drafter shall be right"}, 0, 1,
                options.synth.acceptance);
  parser.text({"--shard-size", "SIZE", "split the weights into files of about this size: 500MB, 2GB"},
              options.shard_size);
  parser.flag("--force", options.write.overwrite, "replace the checkpoint in a folder that has one");
  parser.footer(
      "The weights are random, so the text is noise; sizes and speed are those of the real model.\n"
      "With --acceptance token t is followed by t + 1 and all matrices are still computed with, so that\n"
      "speculation can be timed. Start prompts at 1000 or above: token 1 ends the text.\n"
      "Example: slipstream synth --shape tiny-moe --bits 8 /tmp/tiny && slipstream inspect /tmp/tiny");
  if (!parser.parse(args)) return false;

  if (options.synth.shape.empty()) {
    fail_usage("no shape is given; use --shape with one of {}", fmt::join(synth::shape_names(), ", "));
  }
  if (!options.shard_size.empty()) options.write.shard_bytes = parse_size("--shard-size", options.shard_size);
  if (options.layout == "hf") options.synth.layout = synth::SynthLayout::kHuggingFace;
  if (options.layout == "mlx") options.synth.layout = synth::SynthLayout::kMlx;
  if (options.assistant_bits && !options.assistant) {
    fail_usage("--assistant-bits has no assistant to apply to; add --assistant");
  }
  options.synth.assistant_bits = options.assistant_bits.value_or(options.synth.assistant_bits);
  return true;
}

/// What `write` reports it wrote, behind a progress bar.
template <typename Made, typename Write>
void write_one(const Made& made, const std::string& folder, synth::WriteOptions options, Write write) {
  {
    ProgressBar bar("writing");
    options.progress = [&bar](size_t done, size_t total) { bar.update(done, total); };
    write(made, folder, options);
  }
  write_out(
      fmt::format("wrote {} ({}, {}) to {}\n", made.path, made.format, bytes_text(made.file_bytes), folder));
}

/// "OUT/" is the folder OUT.
std::string assistant_folder(std::string out) {
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out + "-assistant";
}

int run_synth(const Arguments& args) {
  SynthArguments options;
  if (!parse(args, options)) return kExitOk;
  const std::string& target = options.out[0];
  const std::string drafter = assistant_folder(target);
  const auto made = synth::synthesize(options.synth);
  const auto assistant = options.assistant ? synth::synthesize_assistant(options.synth) : nullptr;
  // Both or none: a folder in use is found before gigabytes are written to the other.
  synth::check_folder(target, options.write);
  if (assistant) synth::check_folder(drafter, options.write);
  write_one(*made, target, options.write, synth::write_folder);
  if (assistant) write_one(*assistant, drafter, options.write, synth::write_assistant);
  return kExitOk;
}

}  // namespace

const Command synth_command{"synth", "Write a checkpoint of random weights in the shape of a real model",
                            run_synth};

}  // namespace slip::cli
