#include "session/default_model.h"

#include <fmt/format.h>

#include "base/error.h"

namespace slip::session {

namespace fs = std::filesystem;

namespace {

constexpr int kFoldersAbove = 3;

bool is_model(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.json", ignored);
}

}  // namespace

std::string find_default_model(const fs::path& program) {
  const fs::path own = program.parent_path();
  fs::path folder = own;
  for (int i = 0; i <= kFoldersAbove; ++i, folder = folder.parent_path()) {
    for (const fs::path& place : {folder / kDefaultModel, folder / "share/slipstream" / kDefaultModel}) {
      if (is_model(place)) return place.string();
    }
  }
  // Relative, so that it holds when build and source move together.
  const fs::path source = (own / SLIP_SOURCE_FROM_BUILD / kDefaultModel).lexically_normal();
  return is_model(source) ? source.string() : "";
}

std::string default_model() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const std::string found = error ? "" : find_default_model(program);
  if (found.empty()) {
    fail_usage(
        "no model is named, and the demonstration model {} is not where this program was built or installed; "
        "name a model with -m MODEL",
        kDefaultModel);
  }
  return found;
}

}  // namespace slip::session
