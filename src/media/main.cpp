// slipstream-media-worker: the program that the library starts to decode what it was sent.
#include "media/worker.h"

int main(int argc, char** argv) {
  return slip::media::run_worker(argc, argv);
}
