// Pulls a model with the library's own calls and prints what happens, so that tests can start, kill and race
// it before a command does the same:
//   pull_tool NAME [CONNECTIONS]      with HF_ENDPOINT, HF_HUB_CACHE and the like in the environment
#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <string>

#include "base/error.h"
#include "hub/hub.h"

namespace {

class Printer : public slip::hub::Listener {
 public:
  void on_notice(const std::string& text) override { std::cout << "notice: " << text << std::endl; }
  void on_file_done(const slip::hub::FileProgress& file) override {
    std::cout << "done: " << file.path << std::endl;
  }
};

}  // namespace

int main(int count, char** words) {
  using namespace slip;
  if (count < 2) return 1;
  try {
    const auto start = std::chrono::steady_clock::now();
    hub::HubOptions options;
    options.client.proxy = "";
    hub::Hub hub(std::move(options));
    const hub::Plan plan = hub.plan(hub::parse_model_name(words[1], hub.environment().endpoint));
    std::cout << "plan: " << plan.missing() << " of " << plan.total() << std::endl;
    Printer printer;
    const hub::Pulled pulled = hub.pull(plan, {count > 2 ? std::atoi(words[2]) : 8}, printer);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::cout << "folder: " << pulled.folder << "\nfetched: " << pulled.fetched
              << "\nseconds: " << passed.count() << "\nmemory MB: " << usage.ru_maxrss / 1024 << std::endl;
  } catch (const Error& error) {
    std::cout << "error " << error.exit_code() << ": " << error.what() << std::endl;
    return error.exit_code();
  }
}
