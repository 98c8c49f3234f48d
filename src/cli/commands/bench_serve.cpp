// bench-serve: how fast a server is for many clients at once. Any server of OpenAI's chat API will do.
#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "cli/commands/command.h"
#include "cli/flags/parser.h"
#include "cli/load/load_report.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "net/url.h"
#include "server/http/api_keys.h"

namespace slip::cli {

extern const Command bench_serve_command;

namespace {

struct BenchServeOptions {
  LoadPlan plan;
  std::vector<std::string> urls, variants;
  std::string concurrency, rate, model, key_file;
  bool json = false;
};

/// Ctrl-C.
struct Interrupted {};

std::vector<double> parse_numbers(const std::string& flag, const std::string& text, double least,
                                  double most) {
  std::vector<double> list;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    list.push_back(parse_number(flag, text.substr(at, comma - at), least, most));
    at = comma + 1;
  }
  return list;
}

bool parse(const Arguments& args, BenchServeOptions& options) {
  LoadPlan& plan = options.plan;
  Parser parser(bench_serve_command, "[--url URL]... [--concurrency LIST | --rate LIST]");
  parser.group("Servers");
  parser.texts({"--url", "URL", "of a server, without /v1 (default http://127.0.0.1:8080), or several"},
               options.urls);
  parser.text({"--model", "NAME", "asked for (default: the first that the server names)"}, options.model);
  parser.texts(
      {"--variant", "NAME=JSON", "compare requests with these fields added: plain={\"draft\": false}"},
      options.variants);
  parser.text({"--api-key,--api-key-file", "FILE", "whose first line is the key; or SLIPSTREAM_API_KEY"},
              options.key_file);
  parser.group("Load");
  parser.text({"--concurrency", "LIST", "requests at once (default 1,4,16)"}, options.concurrency);
  parser.text({"--rate", "LIST", "requests a second, at random moments, instead"}, options.rate);
  parser.integer({"-n,--requests", "N", "of a measurement (default: eight for each at once, at least 16)"}, 1,
                 1 << 20, plan.requests);
  parser.integer({"--prompt", "N", "words of a prompt, of a token each (default 256)"}, 1, 1 << 20,
                 plan.prompt);
  parser.integer({"--shared", "N", "of them, the same in all prompts (default 0)"}, 0, 1 << 20, plan.shared);
  parser.integer({"--answer", "N", "tokens of an answer (default 128)"}, 1, 1 << 20, plan.answer);
  parser.integer({"--rounds", "N", "repetitions, servers and variants in turns (default 1)"}, 1, 1000,
                 plan.rounds);
  parser.integer({"--warmup", "N", "requests before each measurement that do not count (default 2)"}, 0,
                 1 << 20, plan.warmup);
  parser.integer({"--seed", "N", "of prompts and moments (default 1)"}, 0, INT64_MAX, plan.seed);
  parser.group("Output");
  parser.flag("--json", options.json, "print JSON instead of markdown");
  if (!parser.parse(args)) return false;
  if (!options.concurrency.empty() && !options.rate.empty())
    fail_usage("give either --concurrency or --rate");
  if (!options.rate.empty()) {
    for (const double rate : parse_numbers("--rate", options.rate, 0.001, 1e5))
      plan.levels.push_back({.rate = rate});
  } else {
    const std::string list = options.concurrency.empty() ? "1,4,16" : options.concurrency;
    for (const double count : parse_numbers("--concurrency", list, 1, 4096)) {
      if (count != static_cast<int>(count))
        fail_usage("--concurrency must hold whole numbers, not {}", count);
      plan.levels.push_back({.concurrency = static_cast<int>(count)});
    }
  }
  return true;
}

/// "NAME=JSON"
std::pair<std::string, nlohmann::json> parse_variant(const std::string& text) {
  const size_t equals = text.find('=');
  const auto fields = equals == std::string::npos
                          ? nlohmann::json()
                          : nlohmann::json::parse(text.substr(equals + 1), nullptr, false);
  if (!fields.is_object() || equals == 0)
    fail_usage("--variant '{}': must look like NAME={{\"draft\": false}}", text);
  return {text.substr(0, equals), fields};
}

/// Every server with every variant.
std::vector<LoadTarget> targets_of(const BenchServeOptions& options) {
  std::vector<std::string> urls = options.urls;
  if (urls.empty()) urls.emplace_back("http://127.0.0.1:8080");
  std::vector<std::pair<std::string, nlohmann::json>> variants;
  for (const std::string& text : options.variants) variants.push_back(parse_variant(text));
  if (variants.empty()) variants.emplace_back("", nlohmann::json::object());
  std::vector<LoadTarget> targets;
  for (std::string url : urls) {
    while (url.ends_with('/')) url.pop_back();
    if (url.ends_with("/v1")) url.resize(url.size() - 3);
    if (!net::parse_url(url)) fail_usage("--url {}: must look like http://127.0.0.1:8080", url);
    const std::string model = options.model.empty() ? first_model(url, options.plan.key) : options.model;
    for (const auto& [name, fields] : variants) {
      std::string shown = urls.size() > 1 || name.empty() ? url : "";
      if (!name.empty()) shown += (shown.empty() ? "" : " ") + name;
      targets.push_back({.name = shown, .url = url, .model = model, .fields = fields});
    }
  }
  return targets;
}

int run_bench_serve(const Arguments& args) {
  BenchServeOptions options;
  if (!parse(args, options)) return kExitOk;
  const char* key = std::getenv("SLIPSTREAM_API_KEY");
  const auto keys = server::http::load_api_keys(options.key_file, key == nullptr ? "" : key);
  if (!keys.empty()) options.plan.key = keys.front();
  options.plan.targets = targets_of(options);
  const InterruptGuard interrupt;
  std::vector<LoadResult> results;
  try {
    ProgressBar bar("measuring", BarUnit::kThings);
    results = run_load(options.plan, [&](size_t done, size_t total) {
      if (interrupt.interrupted()) throw Interrupted();
      bar.update(done, total);
    });
  } catch (const Interrupted&) {
    return kExitInterrupted;
  }
  write_out(options.json ? load_json(options.plan, results).dump(2) + "\n"
                         : load_markdown(options.plan, results));
  bool failed = false;
  for (const LoadResult& result : results) failed = failed || figures_of(result).failed > 0;
  return failed ? Error(ErrorKind::kRuntime, "").exit_code() : kExitOk;
}

}  // namespace

const Command bench_serve_command{"bench-serve", "Measure a server under load", run_bench_serve};

}  // namespace slip::cli
