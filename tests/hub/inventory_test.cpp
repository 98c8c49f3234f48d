#include "hub/inventory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hub/hub_fixture.h"

namespace slip::hub {
namespace {

using Inventory = HubTest;

TEST_F(Inventory, a_list_shows_what_is_there_whoever_put_it_there) {
  EXPECT_TRUE(list_models(environment_).empty());
  pull(kModel, true);
  const test::TempFolder& folder = folder_;
  folder.write("cache/models--other--thing/blobs/abc", "0123456789");
  folder.write("cache/models--other--thing/blobs/def.incomplete", "01234");
  folder.write("cache/models--other--thing/refs/main", std::string(40, 'b'));
  fs::create_directories(folder / ("cache/models--other--thing/snapshots/" + std::string(40, 'b')));
  fs::create_symlink("../../blobs/abc",
                     folder / ("cache/models--other--thing/snapshots/" + std::string(40, 'b') + "/f"));
  const auto models = list_models(environment_);
  ASSERT_EQ(models.size(), 3u);
  EXPECT_EQ(models[0].repository, kModel);
  EXPECT_EQ(models[0].kind, ModelKind::kModel);
  EXPECT_EQ(models[0].bits, 16);
  EXPECT_TRUE(models[0].vision);
  EXPECT_FALSE(models[0].audio);
  EXPECT_EQ(models[0].drafter, snapshot(kDrafter).string());
  EXPECT_GT(models[0].last_used, 1'500'000'000);
  EXPECT_EQ(models[0].bytes, plan().total());
  EXPECT_TRUE(models[0].missing.empty());
  EXPECT_EQ(models[1].kind, ModelKind::kAssistant);
  EXPECT_EQ(models[2].repository, "other/thing");
  EXPECT_EQ(models[2].kind, ModelKind::kOther);
  EXPECT_GE(models[2].bytes, 10u);
  EXPECT_EQ(models[2].missing.size(), 2u);
}

TEST_F(Inventory, damage_in_the_cache_is_shown_and_never_thrown) {
  pull();
  fs::remove(blob("model-00002-of-00002.safetensors"));
  std::ofstream(blob("config.json")) << "[[[";
  folder_.write("cache/models--a--b/snapshots", "a file where a folder belongs");
  folder_.write("cache/models--", "x");
  const auto models = list_models(environment_);
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[1].missing, std::vector<std::string>{"model-00002-of-00002.safetensors"});
  EXPECT_EQ(models[1].kind, ModelKind::kOther);
}

TEST_F(Inventory, one_model_is_shown_with_its_commits_and_files) {
  pull();
  const std::string old = commit();
  server_.add(kModel, "chat_template.jinja", "new");
  pull();
  const ListedModel shown = show_model(parse_model_name(kModel), environment_);
  ASSERT_EQ(shown.commits.size(), 2u);
  for (const CachedCommit& one : shown.commits) {
    EXPECT_EQ(one.files.size(), 9u);
    EXPECT_EQ(one.revisions,
              one.commit == old ? std::vector<std::string>{} : std::vector<std::string>{"main"});
  }
  EXPECT_EQ(fault_of([&] { show_model(parse_model_name("me/absent"), environment_); }, ErrorKind::kBadFile)
                .find("the cache"),
            0u);
}

TEST_F(Inventory, removing_a_model_frees_what_it_says) {
  pull(kModel, true);
  const Removal removal = plan_removal(parse_model_name(kModel), environment_);
  EXPECT_TRUE(removal.whole);
  EXPECT_EQ(removal.blobs.size(), 9u);
  EXPECT_NEAR(static_cast<double>(removal.freed), static_cast<double>(plan().total()), 9 * 8192);
  EXPECT_EQ(removal.in_use, "");
  remove(removal, environment_);
  EXPECT_FALSE(fs::exists(cached().folder()));
  EXPECT_FALSE(fs::exists(cached().locks()));
  EXPECT_TRUE(fs::exists(snapshot(kDrafter) / "config.json"));
}

TEST_F(Inventory, blobs_that_another_commit_uses_stay) {
  pull();
  const std::string old = commit();
  const fs::path old_template = blob("chat_template.jinja");
  server_.add(kModel, "chat_template.jinja", "new");
  pull();
  const Removal removal = plan_removal(parse_model_name(std::string(kModel) + "@" + old), environment_);
  EXPECT_FALSE(removal.whole);
  EXPECT_EQ(removal.blobs, std::vector<std::string>{old_template.filename().string()});
  EXPECT_GT(removal.kept, first_.size());
  remove(removal, environment_);
  EXPECT_FALSE(fs::exists(old_template));
  EXPECT_FALSE(fs::exists(cached().snapshot(old)));
  expect_complete();
}

TEST_F(Inventory, of_a_shared_blob_only_the_link_goes) {
  pull();
  const fs::path shared = fs::path(environment_.cache) / "blobs" / "ab" / "abcdef";
  fs::create_directories(shared.parent_path());
  fs::rename(blob("model-00001-of-00002.safetensors"), shared);
  fs::create_symlink("../../blobs/ab/abcdef", blob("model-00001-of-00002.safetensors"));
  const Removal removal = plan_removal(parse_model_name(kModel), environment_);
  EXPECT_LT(removal.freed, plan().total() - first_.size() + 9 * 8192);
  remove(removal, environment_);
  EXPECT_TRUE(file_text(shared) == first_);
}

TEST_F(Inventory, parts_of_an_unfinished_download_go_too) {
  fs::create_directories(cached().blobs());
  fs::create_directories(cached().snapshot(commit()));
  { Partial partial(real_files(), cached().blob(first_etag()), first_etag(), first_.size()); }
  remove(plan_removal(parse_model_name(kModel), environment_), environment_);
  EXPECT_FALSE(fs::exists(cached().folder()));
}

TEST_F(Inventory, a_model_that_a_process_has_mapped_is_not_removed) {
  pull();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(blob("model-00001-of-00002.safetensors").c_str(), O_RDONLY);
    void* mapping = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);  // as a loaded model does: the mapping alone remains
    const char done = mapping == MAP_FAILED ? '!' : '.';
    if (write(ready[1], &done, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char done = 0;
  ASSERT_EQ(read(ready[0], &done, 1), 1);
  EXPECT_EQ(done, '.');
  const Removal removal = plan_removal(parse_model_name(kModel), environment_);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  expect_words(removal.in_use, {"process " + std::to_string(child)});
  expect_words(fault_of([&] { remove(removal, environment_); }), {"in use by", "end it first"});
  expect_complete();
}

TEST_F(Inventory, a_model_that_is_being_pulled_is_not_removed) {
  pull();
  const Removal removal = plan_removal(parse_model_name(kModel), environment_);
  const LockAttempt lock = real_files().try_lock(cached().locks() / "slipstream.lock");
  ASSERT_EQ(lock.state, LockState::kHeld);
  expect_words(fault_of([&] { remove(removal, environment_); }), {"a pull of", "under way"});
  expect_complete();
}

}  // namespace
}  // namespace slip::hub
