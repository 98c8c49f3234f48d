// ServeOptions: everything that may be set about a server, in one place: `serve` reads it from flags, a file and the
// environment.
#pragma once

#include <chrono>
#include <string>

#include "server/api/service.h"
#include "server/http/options.h"
#include "session/options.h"

namespace slip::server {

struct ServeOptions {
  // The model.
  std::string model;  // empty: the demonstration model
  bool pull = false;  // download it when it is not here
  session::BackendOptions backend = {};
  session::DraftOptions draft = {};
  int context = 0;          // 0 = the largest of 32k to 256k that fits
  int sequences = 0;        // run together; 0 = 16 on the CPU, 64 on a GPU
  int draft_sequences = 0;  // with more of them writing, nobody guesses; 0 = no such bound
  size_t cache_bytes = 0;   // for the caches of all of them; 0 = nine tenths of what is free

  // Who asks, and how much of it.
  http::Options http = {};
  api::ServiceOptions service = {};
  std::string key_file = {};
  bool metrics_open = false;

  // The end.
  std::chrono::milliseconds drain_grace{10'000};
  std::chrono::milliseconds drain_timeout{60'000};
  std::chrono::milliseconds step_limit{120'000};  // a step that takes longer ends the process
  bool quiet = false;                             // nothing but errors
};

}  // namespace slip::server
