// A server in one piece: a small real model, the service, sockets. What clients see of it goes over a real connection.
#pragma once

#include "server/api/reply_source.h"
#include "server/api_fixture.h"
#include "server/http_support.h"

namespace slip::server::api {

struct WholeServerOptions {
  int sequences = 16;
  int context = 0;    // 0 = what the model was made for
  int step_rows = 0;  // 0 = what the backend takes
  size_t cache_bytes = ~size_t{0};
  session::Drafting draft = session::Drafting::kSuffix;
  ServiceOptions service = {.log_requests = false};
  http::Options http = {};
};

class WholeServer {
 public:
  explicit WholeServer(WholeServerOptions options = {}) : service(options.service, timers_) {
    synth::SynthOptions synth{.shape = "tiny-e2b", .bits = 8};
    synth.acceptance = 0.7;
    const test::ScriptedVocabulary vocabulary(test::thoughtful_script());
    model = std::make_unique<session::Model>(synth::synthesize(synth),
                                             text::Tokenizer::parse(vocabulary.tokenizer_json(), "scripted"));
    session::LoadOptions load{.draft = {.kind = options.draft},
                              .engine = {.context = options.context,
                                         .sequences = options.sequences,
                                         .step_rows = options.step_rows,
                                         .cache_bytes = options.cache_bytes}};
    load.backend.device = session::DeviceKind::kCpu;
    load.backend.threads = 1;
    model->load(load);
    replies_ = std::make_unique<ModelReplies>(*model);
    service.open(*model, *replies_);
    options.http.port = 0;
    unix_socket_ = options.http.unix_socket;
    server = std::make_unique<http::Server>(
        options.http, service.handler(),
        [](std::string_view path, const http::Refusal& refusal) { return error_body(path, refusal); });
    server->start();
  }
  ~WholeServer() {
    service.stop();
    server->stop();
  }

  int port() const { return server->port(); }
  const std::string& unix_socket() const { return unix_socket_; }
  static std::string request(const std::string& path, const json& body) {
    const std::string text = body.dump();
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(text.size()) +
           "\r\n\r\n" + text;
  }
  http::Reply ask(const std::string& path, const json& body) const {
    http::Client client(port());
    client.send(request(path, body));
    return client.read();
  }

 private:
  SystemTimers timers_;
  std::string unix_socket_;

 public:
  Service service;
  std::unique_ptr<session::Model> model;
  std::unique_ptr<http::Server> server;

 private:
  std::unique_ptr<ModelReplies> replies_;
};

/// The data events of a stream's body.
inline std::vector<json> events_of(std::string text) {
  std::vector<json> events;
  for (size_t end; (end = text.find("\n\n")) != std::string::npos; text.erase(0, end + 2)) {
    EXPECT_TRUE(text.starts_with("data: ")) << text.substr(0, 100);
    const std::string data = text.substr(6, end - 6);
    events.push_back(data == "[DONE]" ? json(data) : json::parse(data));
  }
  EXPECT_EQ(text, "");
  return events;
}

}  // namespace slip::server::api
