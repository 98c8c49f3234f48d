// One request inside the Service, for the files that hold its routes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/chat_reply.h"
#include "server/api/chat_request.h"
#include "server/api/service.h"

namespace slip::server::api {

struct Service::Call {
  http::Request request;
  std::shared_ptr<http::Exchange> exchange;
  Timers::Time begun;
  std::string route = "other";                   // for the log and the metrics: one of few
  std::vector<http::Header> error_headers = {};  // of a refusal
  bool generating = false;                       // the answer goes on after the route has returned
};

/// What a route made of its body.
struct Service::Job {
  GenerationFields common = {};
  std::vector<session::Prompt> prompts = {};
  const char* field = "messages";  // that the prompts came in
  std::vector<std::string> warnings = {};
  std::vector<std::string> notes = {};  // for the log alone
  std::string prefix = "chatcmpl-";     // of the answer's id
  std::string object = "chat.completion", chunk = "chat.completion.chunk";
  bool no_answer = false;
  std::function<std::unique_ptr<ReplyWriter>(ReplyFrame frame)> writer = {};
};

/// The same of a conversation, and what the writers of its answer share.
struct Service::ChatJob {
  Job job;
  ChatReplyOptions reply;  // its frame comes with the answer
};

}  // namespace slip::server::api
