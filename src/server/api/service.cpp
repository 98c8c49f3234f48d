#include "server/api/service.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/api/service_call.h"
#include "session/build_info.h"

namespace slip::server::api {
namespace {

/// A tower that cannot be read is no reason to serve no text.
bool sees_pictures(const session::Model& model) {
  try {
    return model.vision() != nullptr && model.is_chat();
  } catch (const Error&) {
    return false;
  }
}

/// Routes that other servers have, and why this one has not.
struct Missing {
  std::string_view path;  // itself and all below
  std::string_view why;
};
constexpr Missing kMissing[] = {
    {"/v1/embeddings", "this model writes text and makes no embeddings"},
    {"/embedding", "this model writes text and makes no embeddings"},
    {"/embeddings", "this model writes text and makes no embeddings"},
    {"/v1/rerank", "this model cannot rank documents"},
    {"/v2/rerank", "this model cannot rank documents"},
    {"/rerank", "this model cannot rank documents"},
    {"/reranking", "this model cannot rank documents"},
    {"/v1/score", "this model cannot score pairs of texts"},
    {"/score", "this model cannot score pairs of texts"},
    {"/infill", "this model cannot fill in between two texts"},
    {"/completion", "use /v1/completions"},
    {"/lora-adapters", "this server has no adapters"},
    {"/v1/load_lora_adapter", "this server has no adapters"},
    {"/v1/unload_lora_adapter", "this server has no adapters"},
    {"/v1/audio", "this server cannot hear or speak"},
    {"/v1/images", "this server makes no images"},
    {"/v1/files", "this server keeps no files; send their text in a message"},
    {"/v1/batches", "this server keeps no batches; send the requests"},
    {"/v1/fine_tuning", "this server trains nothing"},
    {"/v1/moderations", "this server has no moderation model"},
    {"/v1/assistants", "this server keeps no state; use /v1/chat/completions"},
    {"/v1/threads", "this server keeps no state; use /v1/chat/completions"},
    {"/v1/responses", "this server keeps no responses; POST /v1/responses answers one"},
    {"/v1/messages", "this server keeps no batches; POST /v1/messages answers one"},
    {"/api", "of ollama's API this server has version, tags, show and chat"},
};

constexpr std::string_view kModelPath = "/v1/models/";

bool below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// Probes come every few seconds; a line for each would bury the others.
bool is_probe(const RequestRecord& record) {
  return record.status < 400 &&
         (record.route == "/health" || record.route == "/ready" || record.route == "/metrics");
}

}  // namespace

/// Passes an answer on and remembers its status.
class NotedExchange final : public http::Exchange {
 public:
  NotedExchange(std::shared_ptr<http::Exchange> exchange, bool head_only)
      : exchange_(std::move(exchange)), head_only_(head_only) {}
  void respond(int status, std::vector<http::Header> headers, std::string body) override {
    status_ = status;
    exchange_->respond(status, std::move(headers), head_only_ ? std::string() : std::move(body));
  }
  void start(int status, std::vector<http::Header> headers) override {
    status_ = status;
    exchange_->start(status, std::move(headers));
  }
  bool write(std::string_view data) override { return exchange_->write(data); }
  void finish() override { exchange_->finish(); }
  bool open() const override { return exchange_->open(); }
  void on_close(std::function<void()> callback) override { exchange_->on_close(std::move(callback)); }
  int status() const { return status_; }

 private:
  std::shared_ptr<http::Exchange> exchange_;
  bool head_only_;
  std::atomic<int> status_{0};
};

const std::vector<Service::RouteEntry>& Service::routes() {
  static const std::vector<RouteEntry> all{
      {"POST", "/v1/chat/completions", &Service::chat},
      {"POST", "/v1/completions", &Service::complete},
      {"POST", "/v1/responses", &Service::responses},
      {"POST", "/v1/messages", &Service::messages},
      {"POST", "/v1/messages/count_tokens", &Service::count_message_tokens},
      {"GET", "/api/version", &Service::ollama_version, false},
      {"GET", "/api/tags", &Service::ollama_tags},
      {"POST", "/api/show", &Service::ollama_show},
      {"POST", "/api/chat", &Service::ollama_chat},
      {"GET", "/v1/models", &Service::models},
      {"POST", "/tokenize", &Service::tokenize},
      {"POST", "/detokenize", &Service::detokenize},
      {"POST", "/apply-template", &Service::apply_template},
      {"GET", "/props", &Service::properties},
      {"GET", "/slots", &Service::slots},
      {"GET", "/metrics", &Service::metrics_text},
      {"GET", "/health", &Service::health, false},
      {"GET", "/ready", &Service::health, false},
      {"GET", "/version", &Service::version, false},
      {"GET", "/", &Service::page, false},
  };
  return all;
}

Service::Service(ServiceOptions options, Timers& timers)
    : options_(std::move(options)), timers_(timers), roster_(options_.limits), workers_(options_.workers) {}

Service::~Service() = default;

void Service::open(session::Model& model, ReplySource& replies) {
  model_ = &model;
  replies_ = &replies;
  sees_ = options_.images.on && sees_pictures(model);
  card_ = std::make_unique<ModelCard>(model, replies.context(), options_.names, sees_);
  metrics_ = std::make_unique<Metrics>(Metrics::Labels{.model_name = card_->id(),
                                                       .version = std::string(session::build_version()),
                                                       .commit = std::string(session::build_commit()),
                                                       .build = std::string(session::build_type())});
  state_ = State::kReady;
}

void Service::stop() {
  refuse_new();
  // Answers that were just entered have no seat yet; they are asked again.
  while (!roster_.wait_until_empty(std::chrono::milliseconds(0))) {
    roster_.end_all({503, "shutting_down", "the server is shutting down"});
    roster_.wait_until_empty(std::chrono::milliseconds(50));
  }
}

void Service::handle(http::Request request, std::shared_ptr<http::Exchange> exchange) {
  auto noted = std::make_shared<NotedExchange>(std::move(exchange), request.method == "HEAD");
  Call call{.request = std::move(request), .exchange = noted, .begun = timers_.now()};
  RequestRecord record{.id = call.request.id, .key = call.request.key};
  try {
    dispatch(call);
  } catch (const std::exception& error) {
    const ApiError known = api_error(error);
    record.error = known.code;
    respond(*noted, call.request.path, known, std::move(call.error_headers));
  }
  if (call.generating) return;  // its answer tells when it is over
  record.route = call.route;
  record.status = noted->status();
  record.seconds = std::chrono::duration<double>(timers_.now() - call.begun).count();
  note(record);
}

void Service::dispatch(Call& call) {
  const std::string& path = call.request.path;
  const std::string_view method =
      call.request.method == "HEAD" ? "GET" : std::string_view(call.request.method);
  std::string allowed;
  for (const RouteEntry& route : routes()) {
    if (route.path != path) continue;
    if (route.method != method) {
      allowed = route.method;
      continue;
    }
    call.route = route.path;
    if (route.needs_model) require_model(call);
    return (this->*route.run)(call);
  }
  if (path.starts_with(kModelPath) && path.size() > kModelPath.size()) {
    if (method == "GET") {
      call.route = "/v1/models/{id}";
      require_model(call);
      return model(call);
    }
    allowed = "GET";
  }
  if (!allowed.empty()) {
    call.error_headers.push_back({"Allow", allowed == "GET" ? "GET, HEAD" : allowed});
    throw ApiError(405, "method_not_allowed",
                   fmt::format("{} takes {}, not {}", path, allowed, call.request.method));
  }
  for (const Missing& missing : kMissing) {
    if (below(path, missing.path))
      throw ApiError(501, "not_implemented", fmt::format("{} is not here: {}", missing.path, missing.why));
  }
  throw ApiError(404, "not_found", "there is no such route; GET / lists what there is");
}

void Service::require_ready() const {
  const State state = state_;
  if (state == State::kReady) return;
  ApiError error(503, state == State::kLoading ? "loading" : "shutting_down",
                 state == State::kLoading ? "the model is being loaded; try again in a moment"
                                          : "the server is shutting down; ask another one");
  error.retry_after_seconds = replies_ == nullptr ? 2 : roster_.retry_after(replies_->load());
  throw error;
}

void Service::require_model(Call& call) const {
  const State state = state_;
  const bool generates = call.request.method == "POST";
  if (state == State::kReady || state == State::kLeaving || (state == State::kDraining && !generates)) return;
  require_ready();
}

void Service::note(const RequestRecord& record) {
  if (state_ != State::kLoading && metrics_) metrics_->add(record);
  if (options_.log_requests && !is_probe(record)) say(log_line(record, options_.json_log));
}

void Service::note_refused(const http::RefusedRequest& refused) {
  note({.id = refused.id,
        .route = "refused",
        .status = refused.refusal.status,
        .error = refused.refusal.code});
}

void Service::say(const std::string& line) const {
  if (options_.log) options_.log(line);
}

}  // namespace slip::server::api
