#include "server/http/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace slip::server::http {

namespace {

uint64_t random_bits() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

Core::Core(Options given, Handler handler, ErrorBody shape)
    : options(std::move(given)),
      access(options),
      error_body(std::make_shared<const ErrorBody>(std::move(shape))),
      id_start_(random_bits()),
      workers(options.workers, std::move(handler), [this](const Request& request, const std::string& what) {
        log_refusal({request.id, request.method, request.path, request.peer, {500, "internal_error", what}});
      }) {}

bool Core::is_probe(std::string_view path) const {
  return std::find(options.probes.begin(), options.probes.end(), path) != options.probes.end();
}

std::string Core::next_id() {
  // The random start keeps the ids of two servers, or of two runs, apart.
  return fmt::format("req-{:016x}{:08x}", id_start_, ++ids_);
}

void Core::log_refusal(const RefusedRequest& refused) {
  ++refusals;
  if (options.on_refused) options.on_refused(refused);
}

void Core::enter() {
  const std::lock_guard lock(mutex_);
  ++active_;
}

void Core::leave() {
  {
    const std::lock_guard lock(mutex_);
    --active_;
  }
  idle_.notify_all();
}

size_t Core::active() const {
  const std::lock_guard lock(mutex_);
  return active_;
}

bool Core::wait_idle(std::chrono::milliseconds wait) const {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, wait, [this] { return active_ == 0; });
}

}  // namespace slip::server::http
