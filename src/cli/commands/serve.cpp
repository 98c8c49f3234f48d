// serve: the model behind an OpenAI-compatible server, from binding the port to the last answer.
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>

#include "base/error.h"
#include "cli/commands/command.h"
#include "cli/commands/pulling.h"
#include "cli/commands/serve_flags.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "media/worker_program.h"
#include "server/api/service.h"
#include "server/http/api_keys.h"
#include "server/http/drain.h"
#include "server/http/notify.h"
#include "server/http/server.h"
#include "server/memory_plan.h"
#include "session/default_model.h"
#include "session/model.h"

namespace slip::cli {
namespace {

using server::ServeOptions;
using server::api::Service;
using session::Model;
namespace http = server::http;
namespace api = server::api;

constexpr int kCpuSequences = 16;
constexpr int kGpuSequences = 64;

constexpr const char* kDefaultUrl = "http://127.0.0.1:8080";  // of launch

/// SIGTERM while the model is being loaded.
struct Interrupted {};

std::string tokens_text(int tokens) {
  return tokens % 1024 == 0 ? fmt::format("{}k", tokens / 1024) : fmt::format("{}", tokens);
}

std::string key_text(const ServeOptions& options, const http::Server& server) {
  if (!options.http.keys.empty()) {
    return fmt::format("{} {}, as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"",
                       options.http.keys.size(), options.http.keys.size() == 1 ? "key" : "keys");
  }
  return server.bound_wide() ? "no key, open to the network" : "no key, loopback only";
}

std::string blocks_text(const std::string& url, const std::string& id, bool keys) {
  const std::string key = keys ? "KEY" : "none";
  const std::string header = keys ? " -H 'Authorization: Bearer KEY'" : "";
  return fmt::format(
      "\n  curl {0}/v1/chat/completions -H 'Content-Type: application/json'{3} \\\n"
      "    -d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello!\"}}]}}'\n"
      "\n  from openai import OpenAI\n"
      "  client = OpenAI(base_url=\"{0}/v1\", api_key=\"{2}\")\n"
      "  print(client.chat.completions.create(model=\"{1}\", messages=[{{\"role\": \"user\", \"content\": "
      "\"Hello!\"}}]).choices[0].message.content)\n"
      "\n  slipstream launch claude{4}    # or with your own hands:\n"
      "  ANTHROPIC_BASE_URL={0} ANTHROPIC_AUTH_TOKEN={2} ANTHROPIC_MODEL={1} "
      "CLAUDE_CODE_ATTRIBUTION_HEADER=0 claude\n",
      url, id, key, header, url == kDefaultUrl ? "" : " --url " + url);
}

/// What a person wants to know once it runs.
std::string start_text(const ServeOptions& options, const http::Server& server, const Model& model,
                       const server::MemoryPlan& plan, const std::string& id) {
  std::string text;
  std::string url = "http://127.0.0.1";
  for (const std::string& one : server.urls()) {
    text += fmt::format("listening on {} ({})\n", one, key_text(options, server));
    if (one.starts_with("http")) url = one;
  }
  text += fmt::format("model: {}, context {}\n", id, plan.context);
  text += fmt::format("device: {}\n", model.device_text());
  const int example = std::min(plan.context, 1 << 15);
  text += plan.cache_bytes == ~size_t{0}
              ? std::string("caches: as much memory as the system gives\n")
              : fmt::format("caches: {}, room for {} conversations of {}\n", bytes_text(plan.cache_bytes),
                            plan.conversations(example), tokens_text(example));
  text += fmt::format("drafting: {}\n", model.drafting_text());
  return text + blocks_text(url + options.http.base_path, id, !options.http.keys.empty());
}

/// Everything that lives while the server does, in the order in which it goes.
class Serving {
 public:
  Serving(ServeOptions options, const http::StopSignals& signals)
      : options_(with_sinks(std::move(options))),
        signals_(signals),
        service_(options_.service, timers_),
        server_(options_.http, service_.handler(), [](std::string_view path, const http::Refusal& refusal) {
          return api::error_body(path, refusal);
        }) {}
  ~Serving() { service_.stop(); }

  /// Listens, so that a taken port is known at once, then loads.
  void start() {
    model_ = Model::open(options_.model, {.vision = {.decoder = {.worker = media::this_program()}}});
    tower_ = tower_bytes();
    const auto [plan, draft, left_out] = server::plan_with_drafters(
        *model_, options_.backend, options_.draft,
        {.context = options_.context, .cache_bytes = options_.cache_bytes, .tower = tower_});
    if (!left_out.empty()) write_err(left_out + "\n");
    server_.start();
    load(plan, draft);
    replies_ = std::make_unique<api::ModelReplies>(*model_);
    service_.open(*model_, *replies_);
    if (!options_.quiet) write_err(start_text(options_, server_, *model_, plan, service_.model_id()));
    if (server_.bound_wide() && options_.http.keys.empty())
      write_err("warning: whoever reaches this address may use the model; set --api-key FILE\n");
    notifier_.ready(fmt::format("serving {}", service_.model_id()));
    watch();
  }

  /// Until a signal comes; then lets the requests go in order.
  void run() {
    constexpr std::chrono::hours kLong{1};
    while (!signals_.wait(1, kLong)) continue;
    notifier_.stopping("finishing what runs");
    if (!options_.quiet) write_err("stopping: finishing what runs; a second signal stops at once\n");
    http::drain(server_, {.grace = options_.drain_grace,
                          .timeout = options_.drain_timeout,
                          .begin = [this] { service_.announce_end(); },
                          .end_rest = [this] { service_.stop(); },
                          .at_once = [this] { return signals_.count() > 1; }});
  }

 private:
  ServeOptions with_sinks(ServeOptions options) {
    const bool quiet = options.quiet;
    options.service.log = [quiet](std::string_view line) {
      if (!quiet) write_err(std::string(line) + "\n");
    };
    options.http.on_refused = [this](const http::RefusedRequest& refused) { service_.note_refused(refused); };
    const char* keys = std::getenv("SLIPSTREAM_API_KEY");
    options.http.keys = http::load_api_keys(options.key_file, keys == nullptr ? "" : keys);
    if (options.metrics_open) options.http.free_paths.push_back("/metrics");
    return options;
  }

  void load(const server::MemoryPlan& plan, const session::DraftOptions& draft) {
    const int sequences = options_.sequences > 0 ? options_.sequences
                          : plan.cuda            ? kGpuSequences
                                                 : kCpuSequences;
    ProgressBar bar("loading");
    model_->load({.backend = options_.backend,
                  .draft = draft,
                  .engine = {.context = plan.context,
                             .sequences = sequences,
                             .draft_sequences = options_.draft_sequences,
                             .cache_bytes = plan.cache_bytes},
                  .vision = tower_ > 0,
                  .picture_tokens = options_.service.images.most_soft_tokens,
                  .progress = [&](size_t done, size_t total) {
                    if (signals_.count() > 0) throw Interrupted();
                    bar.update(done, total);
                  }});
  }

  /// 0 where no pictures are taken. A tower that cannot be read is said, and texts are served all the same.
  size_t tower_bytes() const {
    const api::ImageRules& images = options_.service.images;
    try {
      const session::Vision* vision = images.on ? model_->vision() : nullptr;
      return vision == nullptr ? 0 : vision->needed_bytes(images.most_soft_tokens);
    } catch (const Error& error) {
      write_err(fmt::format("no pictures: {}\n", error.what()));
      return 0;
    }
  }

  void watch() {
    watchdog_ = std::make_unique<http::Watchdog>(
        notifier_, http::Watchdog::Options{.steps = [this] { return model_->load_now().steps; },
                                           .busy =
                                               [this] {
                                                 const engine::Load load = model_->load_now();
                                                 return load.running + load.waiting > 0;
                                               },
                                           .on_hang =
                                               [](const std::string& reason) {
                                                 // Nothing else ends a kernel that hangs.
                                                 write_err("slipstream: " + reason + "\n");
                                                 std::_Exit(Error(ErrorKind::kRuntime, "").exit_code());
                                               },
                                           .limit = options_.step_limit});
  }

  const ServeOptions options_;
  const http::StopSignals& signals_;
  const http::Notifier notifier_;
  api::SystemTimers timers_;
  std::unique_ptr<Model> model_;
  size_t tower_ = 0;  // bytes; 0 where no pictures are taken
  std::unique_ptr<api::ModelReplies> replies_;
  Service service_;
  http::Server server_;
  std::unique_ptr<http::Watchdog> watchdog_;
};

int run_serve(const Arguments& args) {
  ServeOptions options;
  if (!parse_serve(args, options)) return kExitOk;
  if (options.model.empty() && !options.quiet)
    write_err(fmt::format("no model named: using the demonstration model in {}\n", session::kDefaultModel));
  offer_pull({options.model, options.pull});
  const http::StopSignals signals;
  Serving serving(std::move(options), signals);
  try {
    serving.start();
  } catch (const Interrupted&) {
    return kExitOk;
  }
  serving.run();
  return kExitOk;
}

}  // namespace

const Command serve_command{"serve", "Serve a model to OpenAI's clients over HTTP", run_serve};

}  // namespace slip::cli
