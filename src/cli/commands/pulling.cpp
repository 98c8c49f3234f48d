#include "cli/commands/pulling.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "hub/local.h"
#include "net/cancel.h"
#include "session/model_report.h"
#include "session/system_info.h"

namespace slip::cli {
namespace {

using Clock = std::chrono::steady_clock;

const char* state_text(hub::FileState state) {
  switch (state) {
    case hub::FileState::kThere: return "there";
    case hub::FileState::kUnlinked: return "there, to be linked";
    case hub::FileState::kPartial: return "begun";
    case hub::FileState::kMissing: return "";
  }
  return "";
}

std::string repository_text(const hub::PlannedRepository& repository) {
  std::string text = fmt::format("{} at {} ({})\n", repository.repository, repository.revision,
                                 repository.commit.substr(0, 10));
  if (!repository.licence.empty()) text += fmt::format("  licence {}\n", repository.licence);
  for (const hub::PlannedFile& planned : repository.files) {
    text += fmt::format("  {:<42} {:>10}  {}\n", escaped(planned.file.path), bytes_text(planned.file.size),
                        state_text(planned.state));
  }
  return text;
}

/// A bar on a terminal, a line every ten seconds elsewhere.
class PullProgress final : public hub::Listener {
 public:
  PullProgress(net::Cancel& cancel, const InterruptGuard& guard) : cancel_(cancel), guard_(guard) {}
  ~PullProgress() override {
    if (drawn_) write_err("\n");
  }

  void on_progress(const hub::Progress& progress) override {
    if (guard_.interrupted()) cancel_.request();
    const bool terminal = stderr_is_terminal();
    const auto now = Clock::now();
    if (!terminal && now < next_ && progress.there < progress.total) return;
    next_ = now + std::chrono::seconds(10);
    const double share =
        progress.total == 0 ? 1 : static_cast<double>(progress.there) / static_cast<double>(progress.total);
    std::string line =
        fmt::format("{:3.0f} %  {} of {}  {}/s", 100 * share, bytes_text(progress.there),
                    bytes_text(progress.total), bytes_text(static_cast<size_t>(progress.rate)));
    if (progress.seconds_left) line += fmt::format("  {:.0f} s left", *progress.seconds_left);
    write_err(terminal ? "\r" + line + "\x1b[K" : line + "\n");
    drawn_ = terminal;
  }
  void on_notice(const std::string& text) override {
    write_err((drawn_ ? "\r\x1b[K" : "") + escaped(text) + "\n");
  }

 private:
  net::Cancel& cancel_;
  const InterruptGuard& guard_;
  bool drawn_ = false;
  Clock::time_point next_ = Clock::now();
};

}  // namespace

std::string plan_text(const hub::Plan& plan) {
  std::string text = repository_text(plan.model);
  if (plan.drafter) text += repository_text(*plan.drafter);
  if (!plan.drafter_note.empty()) text += fmt::format("drafter: {}\n", plan.drafter_note);
  if (plan.offline) text += fmt::format("offline: {}\n", plan.offline_reason);
  text += fmt::format("total {}, {} of it there; {} free in {}\n", bytes_text(plan.total()),
                      bytes_text(plan.there()), bytes_text(plan.free_disk), plan.cache);
  return text;
}

Puller::Puller()
    : hub_([this] {
        hub::HubOptions options;
        options.cancel = &cancel_;
        options.notice = [](const std::string& text) { write_err(escaped(text) + "\n"); };
        return options;
      }()) {}

hub::Plan Puller::plan(const std::string& name, const hub::PlanOptions& options) {
  return hub_.plan(hub::parse_model_name(name, hub_.environment().endpoint), options);
}

hub::Pulled Puller::pull(const hub::Plan& plan, const hub::PullOptions& options) {
  const InterruptGuard guard;
  PullProgress progress(cancel_, guard);
  return hub_.pull(plan, options, progress);
}

std::string Puller::fit_text(const hub::Plan& plan) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("slipstream-plan-{}", ::getpid());
  std::string text;
  try {
    hub_.write_outline(plan.model, folder.string());
    const auto checkpoint = checkpoint::open(folder.string());
    const session::ModelReport report = session::report_on(*checkpoint);
    const size_t needed = session::memory_needed(report, checkpoint->config, 8192);
    const size_t available = session::memory_info().available;
    text = fmt::format("this machine: it needs {} with a context of 8k, {} are available: {}\n",
                       bytes_text(needed), bytes_text(available),
                       needed <= available ? "it fits" : "it does not fit");
    if (needed > available && plan.smaller != nullptr)
      text +=
          fmt::format("smaller: {} ({} of weights)\n", plan.smaller->name, bytes_text(plan.smaller->bytes));
  } catch (const Error& error) {
    text = fmt::format("this machine: {}\n", error.what());
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return text;
}

bool confirmed(const std::string& question) {
  write_err(question + " [Y/n] ");
  std::string line;
  if (!std::getline(std::cin, line)) return false;
  return line.empty() || line == "y" || line == "Y" || line == "yes";
}

void offer_pull(const ModelOptions& options) {
  if (options.model.empty() || !stdin_is_terminal() || !stderr_is_terminal()) return;
  std::error_code ignored;
  if (std::filesystem::exists(options.model, ignored)) return;
  const hub::Environment environment = hub::read_environment();
  const hub::ModelName name = hub::parse_model_name(options.model);
  if (hub::find_local(name, environment).presence == hub::Presence::kComplete) return;
  Puller puller;
  const hub::Plan plan = puller.plan(options.model);
  write_err(plan_text(plan) + puller.fit_text(plan));
  if (!confirmed(fmt::format("download {}?", bytes_text(plan.missing()))))
    fail_usage("{}: is not downloaded; nothing was changed", options.model);
  puller.pull(plan);
}

}  // namespace slip::cli
