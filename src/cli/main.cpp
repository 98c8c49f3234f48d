#include "cli/app.h"

int main(int argc, char** argv) {
  return slip::cli::run_app({argv + 1, argv + argc});
}
