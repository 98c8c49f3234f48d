#include <cstring>

#include "cli/app.h"
#include "media/worker.h"

int main(int argc, char** argv) {
  // We are our own worker for untrusted pictures. It must come before anything that starts threads or
  // devices.
  if (argc == 2 && std::strcmp(argv[1], slip::media::kWorkerFlag) == 0)
    return slip::media::run_worker(argc, argv);
  return slip::cli::run_app({argv + 1, argv + argc});
}
