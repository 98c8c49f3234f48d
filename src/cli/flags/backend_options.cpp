#include "cli/flags/backend_options.h"

#include "base/error.h"
#include "cli/terminal/output.h"

namespace slip::cli {

using session::Activations;
using session::DeviceKind;

void add_device_option(Parser& parser, BackendOptions& options, const std::string& help) {
  parser.parsed({"--device", "NAME", help}, [&options](const std::string& name) {
    options.device_index = 0;
    if (name == "auto" || name == "cpu") {
      options.device = name == "cpu" ? DeviceKind::kCpu : DeviceKind::kAuto;
      return;
    }
    if (name != "cuda" && !name.starts_with("cuda:"))
      fail_usage("--device must be auto, cpu, cuda or cuda:N, not '{}'", escaped(name));
    options.device = DeviceKind::kCuda;
    if (name != "cuda")
      options.device_index = static_cast<int>(parse_integer("--device cuda:N", name.substr(5), 0, 1023));
  });
}

void add_backend_options(Parser& parser, BackendOptions& options) {
  add_device_option(parser, options, "auto (a GPU if the model fits on it), cpu, cuda or cuda:N");
  parser.integer({"-t,--threads", "N", "threads (default: one per core)"}, 1, 1024, options.threads);
  parser.choice<Activations>(
      {"--activations", "KIND", "what quantised weights see: auto, 16 bits; CPU: 8, float; GPU: 11"},
      {{"auto", Activations::kAuto},
       {"16", Activations::k16},
       {"11", Activations::k11},
       {"8", Activations::k8},
       {"float", Activations::kFloat}},
      options.activations);
  parser.choice<kv::Storage>({"--kv", "TYPE", "how keys and values are kept: bf16 or f32"},
                             {{"bf16", kv::Storage::kBf16}, {"f32", kv::Storage::kF32}}, options.kv);
}

}  // namespace slip::cli
