// Downloading a model from the command line: what it will take, a question, a bar. Shared by `pull` and by every
// command whose model is not here yet. Ctrl-C ends plans and downloads as Interrupted; what came is kept.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/flags/model_options.h"
#include "hub/hub.h"
#include "net/cancel.h"
#include "session/fit.h"

namespace slip::cli {

/// What `inspect` would say of a planned model on this machine, by the headers of its files.
struct PlanFit {
  std::optional<session::Fit> fit;  // nothing when slipstream cannot read the model
  std::string fault;                // why not
  double tokens_per_second = 0;     // about, on the processor, without drafts; 0 = not known
  bool on_gpu = false;              // `fit` is about the GPU's memory
};

/// The plan as people read it: repository, files, sizes, what is there, disk, licence, drafter.
std::string plan_text(const hub::Plan& plan);
std::string fit_text(const PlanFit& fit, const hub::Plan& plan);
nlohmann::ordered_json plan_json(const hub::Plan& plan);
nlohmann::ordered_json fit_json(const PlanFit& fit, const hub::Plan& plan);

enum class Output { kText, kJson };

class Puller {
 public:
  explicit Puller(Output output = Output::kText);
  ~Puller();
  hub::Plan plan(const std::string& name, const hub::PlanOptions& options = {});
  PlanFit fit(const hub::Plan& plan);
  /// Throws when the disk is too small for the plan.
  void require_disk(const hub::Plan& plan) const { hub_->require_disk(plan); }
  /// Tells how it goes: bars on a terminal, a line now and then elsewhere, or JSON.
  hub::Pulled pull(const hub::Plan& plan, const hub::PullOptions& options = {});

 private:
  template <typename F>
  auto interruptible(F&& work);

  net::Cancel cancel_;
  std::unique_ptr<hub::Listener> listener_;
  std::unique_ptr<hub::Hub> hub_;
};

/// Asks on the terminal; yes is the default.
bool confirmed(const std::string& question);

/// What a command reads of its model.
enum class Needs { kWeights, kTokenizer };

/// Before a model is opened: where the name is of a model that is not here, or not whole, shows the plan and
/// downloads it, after a question on a terminal, at once with --pull. Elsewhere a model that is here in part is
/// refused, and opening an absent one says which command downloads it. Asks nothing of the hub for a model that
/// is here.
void offer_pull(const ModelOptions& options, Needs needs = Needs::kWeights);

}  // namespace slip::cli
