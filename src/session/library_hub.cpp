// The public interface of downloads (include/slipstream/hub.h) on top of the hub: translation, nothing else.
#include <fmt/format.h>

#include "hub/hub.h"
#include "session/build_info.h"
#include "slipstream/hub.h"

namespace slip {
namespace {

class Teller final : public hub::Listener {
 public:
  explicit Teller(const std::function<void(const DownloadEvent&)>& on_event) : on_event_(on_event) {}
  void on_progress(const hub::Progress& progress) override {
    tell({.kind = DownloadEvent::Kind::kProgress,
          .text = {},
          .bytes = progress.total,
          .there = progress.there,
          .bytes_per_second = progress.rate,
          .seconds_left = progress.seconds_left});
  }
  void on_file_done(const hub::FileProgress& file) override {
    tell({.kind = DownloadEvent::Kind::kFile,
          .text = file.path,
          .bytes = file.size,
          .there = file.size,
          .seconds_left = {}});
  }
  void on_notice(const std::string& text) override {
    tell({.kind = DownloadEvent::Kind::kNotice, .text = text, .seconds_left = {}});
  }

 private:
  void tell(const DownloadEvent& event) const {
    if (on_event_) on_event_(event);
  }
  const std::function<void(const DownloadEvent&)>& on_event_;
};

void add_files(const hub::PlannedRepository& repository, DownloadPlan& plan) {
  for (const hub::PlannedFile& planned : repository.files)
    plan.files.push_back({repository.repository, planned.file.path, planned.file.size, planned.there});
}

}  // namespace

class Hub::Impl {
 public:
  hub::Plan plan(const std::string& name, const DownloadOptions& options) {
    // One for each call: its notices go to this call's listener.
    hub::HubOptions own;
    own.cancel = &cancel;
    own.client.agent = fmt::format("slipstream/{}", session::build_version());
    own.notice = [on_event = options.on_event](const std::string& text) { Teller(on_event).on_notice(text); };
    hub = std::make_unique<hub::Hub>(std::move(own));
    return hub->plan(hub::parse_model_name(name, hub->environment().endpoint),
                     {options.drafter ? hub::DrafterChoice::kAuto : hub::DrafterChoice::kNone});
  }

  net::Cancel cancel;
  std::unique_ptr<hub::Hub> hub;
};

Hub::Hub() : impl_(std::make_unique<Impl>()) {}
Hub::~Hub() = default;

void Hub::cancel() noexcept {
  impl_->cancel.request();
}

DownloadPlan Hub::plan(const std::string& name, const DownloadOptions& options) {
  const hub::Plan plan = impl_->plan(name, options);
  DownloadPlan result{.repository = plan.model.repository,
                      .commit = plan.model.commit,
                      .licence = plan.model.licence,
                      .drafter = plan.drafter ? plan.drafter->repository : "",
                      .folder = plan.folder,
                      .files = {},
                      .bytes = plan.total(),
                      .missing = plan.missing(),
                      .free_disk = plan.free_disk};
  add_files(plan.model, result);
  if (plan.drafter) add_files(*plan.drafter, result);
  return result;
}

Downloaded Hub::download(const std::string& name, const DownloadOptions& options) {
  const hub::Plan plan = impl_->plan(name, options);
  Teller teller(options.on_event);
  const hub::Pulled pulled = impl_->hub->pull(plan, {options.connections}, teller);
  return {pulled.folder, pulled.drafter, pulled.fetched};
}

}  // namespace slip
