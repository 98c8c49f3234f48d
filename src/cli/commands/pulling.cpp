#include "cli/commands/pulling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands/command.h"
#include "cli/commands/pull_progress.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "hub/local.h"
#include "session/build_info.h"
#include "session/device.h"
#include "session/system_info.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

const char* state_text(hub::FileState state) {
  switch (state) {
    case hub::FileState::kThere: return "there";
    case hub::FileState::kUnlinked: return "there, to be linked";
    case hub::FileState::kPartial: return "begun";
    case hub::FileState::kMissing: return "";
  }
  return "";
}

std::string repository_text(const char* what, const hub::PlannedRepository& repository) {
  std::string text = fmt::format("{} {} at {} ({})\n", what, repository.repository, repository.revision,
                                 repository.commit.substr(0, 10));
  if (repository.moved)
    text += fmt::format("  {} moved; only what changed is fetched\n", repository.revision);
  if (!repository.licence.empty()) text += fmt::format("  licence {}\n", repository.licence);
  for (const hub::PlannedFile& planned : repository.files) {
    text += fmt::format("  {:<42} {:>10}  {}\n", escaped(planned.file.path), bytes_text(planned.file.size),
                        planned.state == hub::FileState::kPartial ? bytes_text(planned.there) + " there"
                                                                  : state_text(planned.state));
  }
  return text;
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

/// A folder of its own that is gone in the end.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "slipstream-plan-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      fail(ErrorKind::kRuntime, "{}: no folder can be made there; set TMPDIR to one that can be written",
           fs::temp_directory_path().string());
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string context_text(int64_t positions) {
  return positions >= 1024 ? fmt::format("{}k", positions >> 10) : fmt::format("{}", positions);
}

bool is_path(const std::string& name) {
  return name.front() == '/' || name.front() == '.' || name.front() == '~';
}

}  // namespace

std::string plan_text(const hub::Plan& plan) {
  if (plan.offline)
    return fmt::format("{}\n{} is here whole, in {}\n", escaped(plan.offline_reason), plan.model.repository,
                       plan.folder);
  std::string text = repository_text("model", plan.model);
  if (plan.drafter) text += repository_text("drafter", *plan.drafter);
  if (!plan.drafter_note.empty()) text += fmt::format("drafter: {}\n", plan.drafter_note);
  text += fmt::format("total {}, {} of it there; {} free in {}\n", bytes_text(plan.total()),
                      bytes_text(plan.there()), bytes_text(plan.free_disk), plan.cache);
  return text;
}

std::string fit_text(const PlanFit& fit, const hub::Plan& plan) {
  if (!fit.fit) return fmt::format("this machine: {}\n", fit.fault);
  const session::Fit& here = *fit.fit;
  if (here.fits()) {
    std::string text = fmt::format("this machine: it fits{}, with a context of {}",
                                   fit.on_gpu ? " the GPU" : "", context_text(here.context));
    if (here.context < here.longest) text += fmt::format(" (of {})", context_text(here.longest));
    if (fit.tokens_per_second > 0)
      text += fmt::format("; about {:.{}f} tokens a second without drafts", fit.tokens_per_second,
                          fit.tokens_per_second < 10 ? 1 : 0);
    return text + "\n";
  }
  std::string text = fmt::format(
      "this machine: it does not fit: it needs {} of memory with a context of 1k, {} are available\n",
      bytes_text(here.needed), bytes_text(here.available));
  if (plan.smaller != nullptr) {
    text += fmt::format("with 4 bits it needs about {} GB: slipstream pull {}\n",
                        hub::needed_gigabytes(*plan.smaller), plan.smaller->name);
  }
  return text;
}

ordered_json plan_json(const hub::Plan& plan) {
  ordered_json out = {{"model", json_of(plan.model)}, {"bytes", plan.total()}, {"there", plan.there()},
                      {"free_disk", plan.free_disk},  {"cache", plan.cache},   {"folder", plan.folder}};
  if (plan.drafter) out["drafter"] = json_of(*plan.drafter);
  if (!plan.drafter_note.empty()) out["drafter_note"] = plan.drafter_note;
  if (plan.offline) out["offline"] = plan.offline_reason;
  return out;
}

ordered_json fit_json(const PlanFit& fit, const hub::Plan& plan) {
  if (!fit.fit) return {{"fault", fit.fault}};
  ordered_json out = {{"fits", fit.fit->fits()},
                      {"context", fit.fit->context},
                      {"longest_context", fit.fit->longest},
                      {"needed_bytes", fit.fit->needed},
                      {"available_bytes", fit.fit->available},
                      {"gpu", fit.on_gpu}};
  if (fit.tokens_per_second > 0) out["tokens_per_second"] = fit.tokens_per_second;
  if (!fit.fit->fits() && plan.smaller != nullptr) out["smaller"] = plan.smaller->name;
  return out;
}

Puller::Puller(Output output) : listener_(make_pull_progress(output)) {
  hub::HubOptions options;
  options.cancel = &cancel_;
  options.client.agent = fmt::format("slipstream/{}", session::build_version());
  options.notice = [this](const std::string& text) { listener_->on_notice(text); };
  hub_ = std::make_unique<hub::Hub>(std::move(options));
}

Puller::~Puller() = default;

template <typename F>
auto Puller::interruptible(F&& work) {
  const InterruptGuard guard(cancel_);
  try {
    return work();
  } catch (const Error& error) {
    if (cancel_.requested()) throw Interrupted(error.what());
    throw;
  }
}

hub::Plan Puller::plan(const std::string& name, const hub::PlanOptions& options) {
  return interruptible(
      [&] { return hub_->plan(hub::parse_model_name(name, hub_->environment().endpoint), options); });
}

hub::Pulled Puller::pull(const hub::Plan& plan, const hub::PullOptions& options) {
  return interruptible([&] { return hub_->pull(plan, options, *listener_); });
}

PlanFit Puller::fit(const hub::Plan& plan) {
  const Scratch outline;
  PlanFit result;
  // What the hub refuses here, it would refuse later.
  result.fault = interruptible([&] { return hub_->write_outline(plan.model, outline.path()); });
  if (!result.fault.empty()) return result;
  try {
    const auto checkpoint = checkpoint::open(outline.path());
    result.fit = session::fit_of(*checkpoint, session::memory_info().available);
    result.on_gpu = session::choose_device({}, result.fit->needed).cuda;
    if (result.on_gpu) {
      result.fit->context = result.fit->longest;
    } else if (result.fit->fits()) {
      result.tokens_per_second = session::expected_speed(*result.fit, session::quick_read_bandwidth());
    }
  } catch (const Error& error) {
    result.fault = error.what();
    // The sentence names a file of the outline; the person knows the repository.
    if (const size_t at = result.fault.find(outline.path()); at != std::string::npos)
      result.fault.replace(at, outline.path().size(), plan.model.repository);
  }
  return result;
}

bool confirmed(const std::string& question) {
  write_err(question + " [Y/n] ");
  std::string line;
  if (!std::getline(std::cin, line)) return false;
  return line.empty() || line == "y" || line == "Y" || line == "yes";
}

void offer_pull(const ModelOptions& options, Needs needs) {
  std::error_code ignored;
  if (options.model.empty() || fs::exists(options.model, ignored) || is_path(options.model)) return;
  const hub::Environment environment = hub::read_environment();
  const hub::LocalModel local =
      hub::find_local(hub::parse_model_name(options.model, environment.endpoint), environment);
  if (local.presence == hub::Presence::kComplete) return;
  if (needs == Needs::kTokenizer && fs::exists(fs::path(local.folder) / "tokenizer.json", ignored)) return;
  const bool ask = !options.pull && stdin_is_terminal() && stderr_is_terminal();
  if (!options.pull && !ask) {
    if (local.presence == hub::Presence::kAbsent) return;
    fail_file("{} is here only in part: it lacks {}; 'slipstream pull {}' fetches the rest", local.repository,
              fmt::join(local.missing, ", "), options.model);
  }
  Puller puller;
  const hub::Plan plan = puller.plan(options.model);
  write_err(plan_text(plan));
  const PlanFit fit = puller.fit(plan);
  // The command would only refuse it, after hours perhaps.
  if (!fit.fit) fail_file("{}; nothing is downloaded", fit.fault);
  write_err(fit_text(fit, plan));
  puller.require_disk(plan);
  if (ask && !confirmed(fmt::format("download {}?", bytes_text(plan.missing()))))
    fail_usage("{}: is not downloaded; nothing was changed", options.model);
  puller.pull(plan);
}

}  // namespace slip::cli
