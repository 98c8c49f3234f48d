// Downloads through the public header alone, against a hub of the tests' own.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "checkpoint/files.h"
#include "hub/fake_hub.h"
#include "slipstream/hub.h"

namespace slip {
namespace {

class LibraryHub : public testing::Test {
 protected:
  LibraryHub() {
    for (const std::string name : {"me/model", "me/model-assistant"}) {
      server_.add(name, "config.json", "{}");
      server_.add(name, "model.safetensors", std::string(3'000'000, 'x') + name, true);
    }
    setenv("HF_ENDPOINT", server_.url().c_str(), 1);
    setenv("HF_HUB_CACHE", (folder_ / "cache").c_str(), 1);
    setenv("no_proxy", "*", 1);
  }
  ~LibraryHub() override {
    unsetenv("HF_ENDPOINT");
    unsetenv("HF_HUB_CACHE");
  }
  test::TempFolder folder_;
  test::FakeHub server_;
};

TEST_F(LibraryHub, plans_downloads_and_tells_how_it_goes) {
  Hub hub;
  const DownloadPlan plan = hub.plan("me/model");
  EXPECT_EQ(plan.repository, "me/model");
  EXPECT_EQ(plan.drafter, "me/model-assistant");
  EXPECT_EQ(plan.files.size(), 4u);
  EXPECT_EQ(plan.missing, plan.bytes);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
  std::vector<std::string> files;
  std::uint64_t there = 0;
  const Downloaded downloaded = hub.download("me/model", {.on_event = [&](const DownloadEvent& event) {
                                               if (event.kind == DownloadEvent::Kind::kFile)
                                                 files.push_back(event.text);
                                               if (event.kind == DownloadEvent::Kind::kProgress)
                                                 there = event.there;
                                             }});
  EXPECT_EQ(files.size(), 4u);
  EXPECT_EQ(there, plan.bytes);
  EXPECT_EQ(downloaded.folder, plan.folder);
  EXPECT_EQ(downloaded.fetched, plan.bytes);
  EXPECT_TRUE(std::filesystem::exists(downloaded.drafter + "/model.safetensors"));
  EXPECT_TRUE(hub.plan("me/model").complete());
  EXPECT_EQ(hub.plan("me/model", {.drafter = false}).drafter, "");
}

TEST_F(LibraryHub, another_thread_may_end_it) {
  Hub hub;
  server_.set_script([&](const test::FakeRequest& request, test::FakeReply& reply) {
    if (!request.storage) return;
    reply.silent_after = 1'500'000;
    reply.when_silent = [&] { hub.cancel(); };
  });
  EXPECT_THROW(hub.download("me/model"), Error);
  server_.set_script({});
  EXPECT_THROW(hub.plan("me/model"), Error);
  Hub again;
  EXPECT_LT(again.download("me/model").fetched, 6'000'000u);
}

}  // namespace
}  // namespace slip
