// pull: from a name to files in Hugging Face's cache, with the drafter that belongs to the model.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands/command.h"
#include "cli/commands/pulling.h"
#include "cli/flags/parser.h"
#include "cli/terminal/output.h"

namespace slip::cli {
namespace {

using nlohmann::ordered_json;

struct PullArguments {
  std::vector<std::string> names;
  bool yes = false, dry_run = false, json = false, no_drafter = false;
  int connections = hub::PullOptions{}.connections;
};

bool parse(const Arguments& args, PullArguments& options) {
  Parser parser(pull_command, "MODEL [OPTIONS]");
  parser.words({"", "MODEL", "gemma-4-e2b, google/gemma-4-E2B-it, a URL; @REVISION may follow"},
               options.names, 1, 1);
  parser.flag("-y,--yes", options.yes, "do not ask");
  parser.flag("--dry-run", options.dry_run, "show the plan and fetch nothing");
  parser.flag("--no-drafter", options.no_drafter, "leave out the assistant that belongs to the model");
  parser.integer({"--connections", "N", "at a time (default 8)"}, 1, 64, options.connections);
  parser.flag("--json", options.json, "print the plan and the result as JSON");
  parser.footer(
      "Files go to Hugging Face's own cache (HF_HOME, HF_HUB_CACHE), where hf and transformers find\n"
      "them too. HF_TOKEN is sent for models that ask for it, HF_ENDPOINT names a mirror. A pull that\n"
      "was interrupted goes on where it stopped. docs/models.md lists the short names.");
  return parser.parse(args);
}

ordered_json json_of(const hub::PlannedRepository& repository) {
  ordered_json out = {{"repository", repository.repository}, {"revision", repository.revision},
                      {"commit", repository.commit},         {"licence", repository.licence},
                      {"bytes", repository.total()},         {"there", repository.there()},
                      {"files", ordered_json::array()}};
  for (const hub::PlannedFile& planned : repository.files)
    out["files"].push_back(
        {{"path", planned.file.path}, {"bytes", planned.file.size}, {"there", planned.there}});
  return out;
}

ordered_json json_of(const hub::Plan& plan) {
  ordered_json out = {{"model", json_of(plan.model)}, {"bytes", plan.total()}, {"there", plan.there()},
                      {"free_disk", plan.free_disk},  {"cache", plan.cache},   {"folder", plan.folder}};
  if (plan.drafter) out["drafter"] = json_of(*plan.drafter);
  return out;
}

int run_pull(const Arguments& args) {
  PullArguments options;
  if (!parse(args, options)) return kExitOk;
  Puller puller;
  const hub::Plan plan = puller.plan(options.names[0], {.with_drafter = !options.no_drafter});
  if (!options.json) write_err(plan_text(plan));
  ordered_json out = json_of(plan);
  if (plan.complete() || options.dry_run) {
    if (options.json) write_out(out.dump(2) + "\n");
    if (!options.json && plan.complete()) write_out(fmt::format("{}: everything is there\n", plan.folder));
    return kExitOk;
  }
  if (!options.json) write_err(puller.fit_text(plan));
  const bool ask = !options.yes && stdin_is_terminal() && stderr_is_terminal();
  if (ask && !confirmed(fmt::format("download {}?", bytes_text(plan.missing()))))
    fail_usage("{}: is not downloaded; nothing was changed", options.names[0]);
  const hub::Pulled pulled = puller.pull(plan, {.connections = options.connections});
  out["fetched"] = pulled.fetched;
  write_out(options.json ? out.dump(2) + "\n" : fmt::format("{}\n", pulled.folder));
  return kExitOk;
}

}  // namespace

const Command pull_command{"pull", "Download a model and its drafter", run_pull};

}  // namespace slip::cli
