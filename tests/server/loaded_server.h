// A service over a real model, small and made up, that guesses and verifies as large ones do.
#pragma once

#include "server/api/reply_source.h"
#include "server/api_fixture.h"

namespace slip::server::api {

struct Loaded {
  Loaded() {
    synth::SynthOptions synth{.shape = "tiny-e2b", .bits = 8};
    synth.acceptance = 0.7;
    const test::ScriptedVocabulary vocabulary(test::thoughtful_script());
    model = std::make_unique<session::Model>(synth::synthesize(synth),
                                             text::Tokenizer::parse(vocabulary.tokenizer_json(), "scripted"));
    session::LoadOptions options{.draft = {.kind = session::Drafting::kSuffix, .depth = 4},
                                 .engine = {.sequences = 8}};
    options.backend.device = session::DeviceKind::kCpu;
    options.backend.threads = 1;
    model->load(options);
    replies = std::make_unique<ModelReplies>(*model);
    service.open(*model, *replies);
  }
  ~Loaded() { service.stop(); }

  std::shared_ptr<FakeExchange> post(const std::string& path, const json& body) {
    auto exchange = std::make_shared<FakeExchange>();
    http::Request request;
    request.method = "POST";
    request.path = path;
    request.body = body.dump();
    request.id = "req-1";
    service.handle(std::move(request), exchange);
    return exchange;
  }

  SystemTimers timers;
  Service service{{}, timers};
  std::unique_ptr<session::Model> model;
  std::unique_ptr<ModelReplies> replies;
};

}  // namespace slip::server::api
