// Service: the server without its sockets. It takes a request whole and answers it: routes, bodies, models' names, who
// comes in, streams, errors, metrics, one line of log per request.
//
// It answers from its construction on: while a model is loaded, and again while the server goes down, with 503 and
// Retry-After. Any number of threads may call handle(), which returns once the request is on its way.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/image_parts.h"
#include "server/api/metrics.h"
#include "server/api/model_card.h"
#include "server/api/roster.h"
#include "server/http/options.h"

namespace slip::server::api {

struct ChatRequest;
struct Reading;

struct ServiceOptions {
  ModelCard::Options names = {};
  AdmissionLimits limits = {};
  int workers = 2;        // threads that make text of deltas
  int answer_tokens = 0;  // of a request that does not say; 0 = the room left
  ImageRules images = {};
  bool json_log = false;
  bool log_requests = true;
  /// Gets one line without its break, from any thread. Empty: no log.
  std::function<void(std::string_view)> log = {};
};

class Service {
 public:
  /// The timers outlive it.
  Service(ServiceOptions options, Timers& timers);
  /// stop() has been called, or nothing ever ran.
  ~Service();

  /// From now on requests are answered by this model. It and `replies` live until stop() has returned.
  void open(session::Model& model, ReplySource& replies);
  void handle(http::Request request, std::shared_ptr<http::Exchange> exchange);
  http::Handler handler() {
    return [this](http::Request request, std::shared_ptr<http::Exchange> exchange) {
      handle(std::move(request), std::move(exchange));
    };
  }

  /// A request that never reached handle(): for the log and the metrics.
  void note_refused(const http::RefusedRequest& refused);

  // The way down, in this order.
  /// Health says 503; requests are still taken.
  void announce_end() { state_ = State::kLeaving; }
  /// No new requests.
  void refuse_new() { state_ = State::kDraining; }
  /// Until all answers are complete. False: not within `most`.
  bool drained(std::chrono::milliseconds most) { return roster_.wait_until_empty(most); }
  /// Ends what still runs with an error, and waits for it.
  void stop();

  size_t active() const { return roster_.size(); }
  /// Of a service with a model.
  const std::string& model_id() const { return card_->id(); }

 private:
  enum class State { kLoading, kReady, kLeaving, kDraining };
  struct Call;
  struct Job;
  struct ChatJob;
  using Route = void (Service::*)(Call&);
  struct RouteEntry {
    std::string_view method, path;
    Route run;
    bool needs_model = true;
  };
  static const std::vector<RouteEntry>& routes();

  void dispatch(Call& call);
  void require_ready() const;
  void require_model(Call& call) const;
  void note(const RequestRecord& record);
  void say(const std::string& line) const;

  // Routes that generate.
  void chat(Call& call);
  void complete(Call& call);
  void messages(Call& call);
  void count_message_tokens(Call& call);
  void responses(Call& call);
  void ollama_version(Call& call);
  void ollama_tags(Call& call);
  void ollama_show(Call& call);
  void ollama_chat(Call& call);
  void generate(Call& call, Job job);
  /// Throws ApiError 404 that names the loaded model to whoever asks for another.
  void require_named(const nlohmann::json& body) const;
  ChatJob chat_job(const Call& call, ChatRequest chat, std::string prefix) const;
  /// What the conversation becomes, with its pictures fetched and decoded; `notes` gets a line for each.
  session::Prompt prompt_of(const Call& call, const ChatRequest& chat, std::vector<std::string>& notes) const;
  Reading reading() const;
  std::vector<int> ids_of_conversation(const Call& call, const nlohmann::json& body) const;
  // Routes that tell.
  void page(Call& call);
  void health(Call& call);
  void version(Call& call);
  void models(Call& call);
  void model(Call& call);
  void properties(Call& call);
  void slots(Call& call);
  void metrics_text(Call& call);
  // Routes about text.
  void tokenize(Call& call);
  void detokenize(Call& call);
  void apply_template(Call& call);

  const ServiceOptions options_;
  Timers& timers_;
  std::atomic<State> state_{State::kLoading};
  session::Model* model_ = nullptr;  // set before the state says so
  ReplySource* replies_ = nullptr;
  bool sees_ = false;  // pictures are allowed, and the model has a tower
  std::unique_ptr<ModelCard> card_;
  std::unique_ptr<Metrics> metrics_;
  Roster roster_;
  Workers workers_;  // last: its jobs use all of the above
};

}  // namespace slip::server::api
