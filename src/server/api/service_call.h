// One request inside the Service, for the files that hold its routes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/generation_fields.h"
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

}  // namespace slip::server::api
