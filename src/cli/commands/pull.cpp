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

using hub::DrafterChoice;
using nlohmann::ordered_json;

struct PullArguments {
  std::vector<std::string> names;
  bool yes = false, dry_run = false, json = false, no_drafter = false;
  DrafterChoice drafter = DrafterChoice::kAuto;
  int connections = hub::PullOptions{}.connections;
};

bool parse(const Arguments& args, PullArguments& options) {
  Parser parser(pull_command, "MODEL [OPTIONS]");
  parser.words({"", "MODEL", "gemma-4-e2b, google/gemma-4-E2B-it, a URL; @REVISION may follow"},
               options.names, 1, 1);
  parser.flag("-y,--yes", options.yes, "do not ask");
  parser.flag("--dry-run", options.dry_run, "show the plan and fetch nothing");
  parser.choice<DrafterChoice>({"--drafter", "KIND", "auto, assistant, dflash or none (default auto)"},
                               {{"auto", DrafterChoice::kAuto},
                                {"assistant", DrafterChoice::kAssistant},
                                {"dflash", DrafterChoice::kDflash},
                                {"none", DrafterChoice::kNone}},
                               options.drafter);
  parser.flag("--no-drafter", options.no_drafter, "the same as --drafter none");
  parser.integer({"--connections", "N", "at a time (default 8)"}, 1, 64, options.connections);
  parser.flag("--json", options.json, "print what happens as JSON, an object a line");
  parser.footer(
      "Files go to Hugging Face's own cache (HF_HOME, HF_HUB_CACHE), where hf and transformers find\n"
      "them too. HF_TOKEN is sent for models that ask for it, HF_ENDPOINT names a mirror. A pull that\n"
      "was interrupted goes on where it stopped. docs/models.md lists the short names.");
  if (!parser.parse(args)) return false;
  if (options.no_drafter) options.drafter = DrafterChoice::kNone;
  return true;
}

void write_event(const char* name, const ordered_json& fields) {
  ordered_json event = {{"event", name}};
  event.update(fields);
  write_out(event.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

/// The plan, before anything else: on stderr for people, on stdout for programs.
void show_plan(const PullArguments& options, const hub::Plan& plan, Puller& puller) {
  // Of a model that is here, `inspect` says it; a drafter alone runs nowhere.
  const bool asked = !plan.complete() && !plan.is_drafter;
  const std::optional<PlanFit> fit = asked ? std::optional(puller.fit(plan)) : std::nullopt;
  if (options.json) {
    ordered_json fields = plan_json(plan);
    if (fit) fields["fit"] = fit_json(*fit, plan);
    write_event("plan", fields);
    return;
  }
  write_err(plan_text(plan));
  if (fit) write_err(fit_text(*fit, plan));
}

void show_result(const PullArguments& options, const hub::Pulled& pulled) {
  if (options.json) {
    write_event("done",
                {{"folder", pulled.folder}, {"drafter", pulled.drafter}, {"fetched", pulled.fetched}});
  } else {
    write_out(pulled.folder + "\n");
  }
}

int run_pull(const Arguments& args) {
  PullArguments options;
  if (!parse(args, options)) return kExitOk;
  Puller puller(options.json ? Output::kJson : Output::kText);
  const hub::Plan plan = puller.plan(options.names[0], {.drafter = options.drafter});
  show_plan(options, plan, puller);
  puller.require_disk(plan);
  if (options.dry_run) return kExitOk;
  if (plan.complete()) {
    if (!options.json) write_err("everything is there\n");
    // A reference that moved to files which are all here is written now.
    show_result(options, puller.pull(plan));
    return kExitOk;
  }
  const bool ask = !options.yes && !options.json && stdin_is_terminal() && stderr_is_terminal();
  if (ask && !confirmed(fmt::format("download {}?", bytes_text(plan.missing()))))
    fail_usage("{}: is not downloaded; nothing was changed", options.names[0]);
  show_result(options, puller.pull(plan, {.connections = options.connections}));
  return kExitOk;
}

}  // namespace

const Command pull_command{"pull", "Download a model and its drafter", run_pull};

}  // namespace slip::cli
