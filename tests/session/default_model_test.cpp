// The demonstration model: where it is looked for.
#include "session/default_model.h"

#include <gtest/gtest.h>

#include "support/program.h"

namespace slip::session {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

void make_model(const TemporaryFolder& folder, const std::string& place) {
  fs::create_directories(folder.path(place));
  test::write_file(folder.path(place + "/config.json"), "{}");
}

TEST(DefaultModel, is_found_above_the_program) {
  const TemporaryFolder folder;
  make_model(folder, "models/tiny");
  const std::string place = folder.path("models/tiny");
  EXPECT_EQ(find_default_model(folder.path("slipstream")), place);
  EXPECT_EQ(find_default_model(folder.path("build/release/slipstream")), place);
  EXPECT_EQ(find_default_model(folder.path("a/b/c/slipstream")), place);
}

TEST(DefaultModel, is_found_where_it_is_installed) {
  const TemporaryFolder folder;
  make_model(folder, "usr/share/slipstream/models/tiny");
  EXPECT_EQ(find_default_model(folder.path("usr/bin/slipstream")),
            folder.path("usr/share/slipstream/models/tiny"));
}

TEST(DefaultModel, an_empty_folder_is_no_model) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path("models/tiny"));
  EXPECT_EQ(find_default_model(folder.path("bin/slipstream")), "");
}

}  // namespace
}  // namespace slip::session
