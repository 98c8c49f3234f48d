// Downloading a model from the command line: what it will take, a question, a bar. Shared by `pull` and by every
// command whose model is not here yet.
#pragma once

#include <string>

#include "cli/flags/model_options.h"
#include "hub/hub.h"
#include "net/cancel.h"

namespace slip::cli {

/// The plan as people read it: repository, files, sizes, what is there, disk, licence, drafter.
std::string plan_text(const hub::Plan& plan);

/// A hub whose work Ctrl-C ends; what came is kept.
class Puller {
 public:
  Puller();
  hub::Plan plan(const std::string& name, const hub::PlanOptions& options = {});
  /// With a bar on a terminal and a line now and then elsewhere.
  hub::Pulled pull(const hub::Plan& plan, const hub::PullOptions& options = {});
  /// What `inspect` would say of the planned model on this machine, in one line. Empty when nothing can be said.
  std::string fit_text(const hub::Plan& plan);

 private:
  net::Cancel cancel_;
  hub::Hub hub_;
};

/// Asks on the terminal; yes is the default.
bool confirmed(const std::string& question);

/// Before a model is opened: where the name is of a model that is not here, shows the plan and asks on a terminal.
/// Elsewhere nothing happens, and opening it says which command downloads it.
void offer_pull(const ModelOptions& options);

}  // namespace slip::cli
