// list, show, rm: the models that are on this machine, whoever put them into Hugging Face's cache.
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands/command.h"
#include "cli/commands/pulling.h"
#include "cli/flags/parser.h"
#include "cli/terminal/output.h"
#include "hub/inventory.h"
#include "session/fit.h"
#include "session/system_info.h"

namespace slip::cli {
namespace {

using nlohmann::ordered_json;

const char* kind_text(hub::ModelKind kind) {
  switch (kind) {
    case hub::ModelKind::kModel: return "model";
    case hub::ModelKind::kAssistant: return "assistant";
    case hub::ModelKind::kDflash: return "dflash";
    case hub::ModelKind::kOther: return "other";
  }
  return "?";
}

std::string day_of(int64_t seconds) {
  if (seconds == 0) return "-";
  const auto time = static_cast<std::time_t>(seconds);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::localtime(&time));
  return text;
}

std::string bits_text(const hub::ListedModel& model) {
  return model.bits ? fmt::format("{}", *model.bits) : "-";
}

std::string tower_text(const hub::ListedModel& model) {
  if (model.vision) return model.audio ? "vision, audio" : "vision";
  return model.audio ? "audio" : "-";
}

/// The longest context that fits here; nothing for what is no whole model that slipstream reads.
std::optional<int64_t> context_of(const hub::ListedModel& model) {
  if (model.kind != hub::ModelKind::kModel || model.folder.empty() || !model.missing.empty())
    return std::nullopt;
  try {
    return session::fit_of(*checkpoint::open(model.folder), session::memory_info().available).context;
  } catch (const Error&) {
    return std::nullopt;  // `inspect` says why
  }
}

std::string context_text(std::optional<int64_t> context) {
  if (!context) return "-";
  if (*context == 0) return "too large";
  return *context >= 1024 ? fmt::format("{}k", *context >> 10) : fmt::format("{}", *context);
}

ordered_json json_of(const hub::ListedModel& model) {
  ordered_json out = {
      {"repository", model.repository}, {"folder", model.folder},  {"commit", model.commit},
      {"kind", kind_text(model.kind)},  {"bytes", model.bytes},    {"partial_bytes", model.partial_bytes},
      {"drafter", model.drafter},       {"vision", model.vision},  {"audio", model.audio},
      {"last_used", model.last_used},   {"missing", model.missing}};
  if (model.bits) out["bits"] = *model.bits;
  if (const auto context = context_of(model)) out["context"] = *context;
  return out;
}

int run_list(const Arguments& args) {
  bool json = false, all = false;
  Parser parser(list_command, "[--all] [--json]");
  parser.flag("--all", all, "also what is no Gemma 4 model or drafter");
  parser.flag("--json", json, "print a list of JSON objects");
  if (!parser.parse(args)) return kExitOk;
  const hub::Environment environment = hub::read_environment();
  ordered_json list = ordered_json::array();
  std::string text = fmt::format("{:<42} {:<9} {:>4} {:>10}  {:<7} {:<13} {:<9} {}\n", "name", "kind", "bits",
                                 "on disk", "drafter", "tower", "context", "last used");
  size_t count = 0;
  for (const hub::ListedModel& model : hub::list_models(environment)) {
    if (model.kind == hub::ModelKind::kOther && !all) continue;
    ++count;
    if (json) {
      list.push_back(json_of(model));
      continue;
    }
    text +=
        fmt::format("{:<42} {:<9} {:>4} {:>10}  {:<7} {:<13} {:<9} {}{}\n", escaped(model.repository),
                    kind_text(model.kind), bits_text(model), bytes_text(model.bytes),
                    model.drafter.empty() ? "-" : "yes", tower_text(model), context_text(context_of(model)),
                    day_of(model.last_used), model.missing.empty() ? "" : "  (incomplete)");
  }
  if (json) {
    write_out(list.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  } else if (count == 0) {
    write_out("no model is in the cache; 'slipstream pull gemma-4-e2b' downloads one\n");
  } else {
    write_out(text);
  }
  return kExitOk;
}

hub::ListedModel named_model(const std::string& name) {
  const hub::Environment environment = hub::read_environment();
  return hub::show_model(hub::parse_model_name(name, environment.endpoint), environment);
}

int run_show(const Arguments& args) {
  bool json = false;
  std::vector<std::string> words;
  Parser parser(show_command, "MODEL [--json]");
  parser.words({"", "MODEL", "a name in the cache"}, words, 1, 1);
  parser.flag("--json", json, "print one JSON object");
  parser.footer(
      "Example: slipstream show google/gemma-4-E2B-it\n'inspect' says what the model is and whether it "
      "fits.");
  if (!parser.parse(args)) return kExitOk;
  const hub::ListedModel model = named_model(words[0]);
  if (json) {
    write_out(json_of(model).dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    return kExitOk;
  }
  std::string text =
      fmt::format("{}\n{:<10} {}\n{:<10} {}\n{:<10} {}\n{:<10} {}\n{:<10} {}\n{:<10} {}\n{:<10} {}\n",
                  model.repository, "kind", kind_text(model.kind), "folder", model.folder, "on disk",
                  bytes_text(model.bytes), "bits", bits_text(model), "tower", tower_text(model), "context",
                  context_text(context_of(model)), "last used", day_of(model.last_used));
  if (!model.drafter.empty()) text += fmt::format("{:<10} {}\n", "drafter", model.drafter);
  for (const std::string& file : model.missing) text += fmt::format("{:<10} {}\n", "missing", escaped(file));
  for (const hub::CachedCommit& commit : model.commits) {
    text += fmt::format("commit {} {}\n", commit.commit.substr(0, 10), fmt::join(commit.revisions, ", "));
    for (const hub::CachedFile& file : commit.files)
      text += fmt::format("  {:<44} {:>10}{}\n", escaped(file.path), bytes_text(file.size),
                          file.there ? "" : "  missing");
  }
  write_out(text);
  return kExitOk;
}

int run_rm(const Arguments& args) {
  bool yes = false;
  std::vector<std::string> words;
  Parser parser(rm_command, "MODEL[@REVISION] [--yes]");
  parser.words({"", "MODEL", "a name in the cache; with a revision only that"}, words, 1, 1);
  parser.flag("-y,--yes", yes, "do not ask");
  parser.footer("Files that another revision uses stay. What a running program has open is not removed.");
  if (!parser.parse(args)) return kExitOk;
  const hub::Environment environment = hub::read_environment();
  const hub::Removal removal =
      hub::plan_removal(hub::parse_model_name(words[0], environment.endpoint), environment);
  if (!removal.in_use.empty())
    fail(ErrorKind::kRuntime, "{}: is in use by {}; stop that first", removal.repository, removal.in_use);
  const std::string what = fmt::format(
      "{}: frees {}{}", removal.repository, bytes_text(removal.freed),
      removal.kept > 0 ? fmt::format(", keeps {} that other revisions use", bytes_text(removal.kept)) : "");
  if (!yes) {
    if (!stdin_is_terminal()) fail_usage("{}; say --yes to remove it", what);
    if (!confirmed(what + "; remove it?")) fail_usage("{}: nothing was removed", removal.repository);
  }
  hub::remove(removal, environment);
  write_out(what + "\n");
  return kExitOk;
}

}  // namespace

const Command list_command{"list", "The models on this machine", run_list};
const Command show_command{"show", "What of a model is on this machine", run_show};
const Command rm_command{"rm", "Remove a model from this machine", run_rm};

}  // namespace slip::cli
