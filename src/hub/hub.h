// The hub, as commands, the library and the server use it: from a name to a plan, from a plan to files in
// Hugging Face's cache, and what that cache holds. Calls block; progress comes as calls of a Listener on the
// same thread, and a Cancel ends them within a moment.
//
//   Hub hub;
//   const Plan plan = hub.plan(parse_model_name("gemma-4-e2b"));
//   const Pulled pulled = hub.pull(plan, {}, listener);    // pulled.folder is what checkpoint::open() takes
//
// Invariants: nothing of a repository gets its name in the cache before its hash was checked; nothing is
// written unless pull() or remove() is called; one Hub is used from one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hub/environment.h"
#include "hub/files.h"
#include "hub/inventory.h"
#include "hub/listener.h"
#include "hub/local.h"
#include "hub/names.h"
#include "hub/plan.h"
#include "net/http_client.h"

namespace slip::hub {

struct HubOptions {
  Environment environment = read_environment();
  Files* files = &real_files();
  net::ClientOptions client = {};
  const net::Cancel* cancel = nullptr;
  Notice notice = {};  // of plan(); pull() tells its listener
};

struct PlanOptions {
  DrafterChoice drafter = DrafterChoice::kAuto;
};

struct PullOptions {
  int connections = 8;
};

struct Pulled {
  std::string folder;   // of the model's snapshot
  std::string drafter;  // of the drafter's, "" without
  uint64_t fetched = 0;
};

/// The start of a safetensors file, as far as its header reaches: what checkpoint::parse_header() takes.
struct RemoteHeader {
  std::string path;
  uint64_t file_size = 0;
  std::string bytes;
  std::string fault;  // why the file is no safetensors file; `bytes` is empty then
};

class Hub {
 public:
  explicit Hub(HubOptions options = {});
  ~Hub();

  /// Asks the hub what the name stands for and the cache what of it is there. Without a network, or offline,
  /// a model that is complete here has a plan with nothing to do; otherwise Error says what is missing.
  Plan plan(const ModelName& name, const PlanOptions& options = {});

  /// Throws Error(kRuntime) when the disk has no room for what the plan would fetch.
  void require_disk(const Plan& plan) const;

  /// Does what the plan says, after require_disk(). Waits for another pull of the same repository.
  Pulled pull(const Plan& plan, const PullOptions& options, Listener& listener);

  /// The headers of the plan's weights, from the cache where they are there, over HTTP otherwise. Throws what
  /// the hub refuses.
  std::vector<RemoteHeader> read_headers(const PlannedRepository& repository);

  /// Makes `folder` look like the model to whoever reads headers only: its config, and weights of the right
  /// size that are all hole behind their header. What inspect says of it is what it would say of the model.
  /// Returns what is wrong with the files; "" = nothing that their headers show.
  std::string write_outline(const PlannedRepository& repository, const std::string& folder);

  const Environment& environment() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slip::hub
