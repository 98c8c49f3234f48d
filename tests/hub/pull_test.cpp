#include <sys/stat.h>

#include <thread>

#include "hub/hub_fixture.h"
#include "hub/wrapped_files.h"

namespace slip::hub {
namespace {

using Pull = HubTest;

TEST_F(Pull, a_name_becomes_files_in_the_layout_of_hugging_faces_cache) {
  const Pulled pulled = pull();
  expect_complete();
  EXPECT_EQ(pulled.folder, snapshot().string());
  EXPECT_EQ(file_text(cached().reference("main")).size(), 40u);  // no line end
  EXPECT_EQ(file_text(fs::path(environment_.cache) / "CACHEDIR.TAG").substr(0, 43),
            "Signature: 8a477f597d28d172789f06886806bc55");
  EXPECT_TRUE(fs::exists(cached().locks() / (first_etag() + ".lock")));
  EXPECT_EQ(listener_.done.size(), 9u);
  EXPECT_EQ(listener_.there, listener_.total);
}

TEST_F(Pull, the_plan_says_everything_before_a_weight_is_touched) {
  server_.forget_requests();
  const Plan planned = plan(kModel, true);
  EXPECT_EQ(planned.model.repository, kModel);
  EXPECT_EQ(planned.model.commit, commit());
  EXPECT_EQ(planned.model.licence, "apache-2.0");
  EXPECT_EQ(planned.model.files.size(), 9u);
  EXPECT_EQ(planned.model.files.back().file.path, "model-00002-of-00002.safetensors");
  EXPECT_EQ(planned.model.files.back().file.size, second_.size());
  ASSERT_TRUE(planned.drafter);
  EXPECT_EQ(planned.drafter->repository, kDrafter);
  EXPECT_EQ(planned.drafter->files.size(), 2u);
  EXPECT_EQ(planned.drafter->total(), 900'000u + 33u);
  EXPECT_EQ(planned.missing(), planned.total());
  EXPECT_GT(planned.free_disk, 0u);
  EXPECT_EQ(planned.folder, snapshot().string());
  EXPECT_EQ(server_.count_of("/blob/"), 0u);
  EXPECT_FALSE(fs::exists(environment_.cache)) << "a plan writes nothing";
}

TEST_F(Pull, the_drafter_comes_with_its_model) {
  const Pulled pulled = pull(kModel, true);
  expect_complete();
  expect_complete(kDrafter);
  EXPECT_EQ(pulled.drafter, snapshot(kDrafter).string());
  EXPECT_EQ(find_assistant(pulled.folder, environment_), pulled.drafter);
}

TEST_F(Pull, a_model_without_a_drafter_says_so_and_comes_alone) {
  server_.add("me/alone", "config.json", "{}");
  server_.add("me/alone", "model.safetensors", "weights", true);
  const Plan planned = plan("me/alone", true);
  EXPECT_FALSE(planned.drafter);
  EXPECT_EQ(planned.drafter_note, "none is published for it");
}

/// A model of the table with both kinds of drafter beside it.
class PullDrafter : public HubTest {
 protected:
  static constexpr const char* kLarge = "google/gemma-4-31B-it";
  static constexpr const char* kAssistant = "google/gemma-4-31B-it-assistant";
  static constexpr const char* kDflash = "z-lab/gemma-4-31B-it-DFlash";
  PullDrafter() {
    for (const char* name : {kLarge, kAssistant, kDflash, "google/gemma-4-E2B-it"}) {
      server_.add(name, "config.json", "{}");
      server_.add(name, "model.safetensors", name, true);
    }
  }
  Plan plan_with(DrafterChoice choice, const std::string& name = kLarge) {
    return Hub(options()).plan(parse_model_name(name), {choice});
  }
};

TEST_F(PullDrafter, the_assistant_goes_before_dflash) {
  EXPECT_EQ(plan_with(DrafterChoice::kAuto).drafter->repository, kAssistant);
  EXPECT_EQ(plan_with(DrafterChoice::kDflash).drafter->repository, kDflash);
  EXPECT_FALSE(plan_with(DrafterChoice::kNone).drafter);
}

TEST_F(PullDrafter, where_no_assistant_is_published_dflash_is_planned) {
  server_.remove_repository(kAssistant);
  const Plan planned = plan_with(DrafterChoice::kAuto);
  ASSERT_TRUE(planned.drafter);
  EXPECT_EQ(planned.drafter->repository, kDflash);
  EXPECT_EQ(planned.drafter_note, "");
  EXPECT_FALSE(plan_with(DrafterChoice::kAssistant).drafter);
  Hub hub(options());
  const Pulled pulled = hub.pull(planned, {}, listener_);
  EXPECT_EQ(find_dflash(kLarge, environment_), pulled.drafter);
}

TEST_F(PullDrafter, a_model_without_a_dflash_drafter_says_so) {
  const Plan planned = plan_with(DrafterChoice::kDflash, "google/gemma-4-E2B-it");
  EXPECT_FALSE(planned.drafter);
  EXPECT_EQ(planned.drafter_note, "no DFlash drafter is published for it");
}

TEST_F(Pull, a_complete_model_costs_two_requests_and_no_write) {
  pull();
  server_.forget_requests();
  const auto before = fs::last_write_time(cached().folder());
  const Pulled again = pull();
  EXPECT_EQ(again.folder, snapshot().string());
  EXPECT_EQ(again.fetched, 0u);
  EXPECT_EQ(server_.requests().size(), 2u);
  EXPECT_EQ(fs::last_write_time(cached().folder()), before);
}

TEST_F(Pull, only_changed_files_are_fetched_when_the_revision_moved) {
  pull();
  const std::string old = commit();
  server_.add(kModel, "chat_template.jinja", "{{ messages }} and more");
  server_.forget_requests();
  EXPECT_TRUE(plan().model.moved);
  const Pulled pulled = pull();
  EXPECT_EQ(pulled.fetched, 23u);
  EXPECT_EQ(server_.count_of("/blob/"), 0u);
  EXPECT_EQ(file_text(cached().reference("main")), commit());
  EXPECT_EQ(file_text(snapshot() / "chat_template.jinja"), "{{ messages }} and more");
  EXPECT_TRUE(file_text(snapshot() / "model-00001-of-00002.safetensors") == first_);
  EXPECT_EQ(file_text(cached().snapshot(old) / "chat_template.jinja"), "{{ messages }}");
}

TEST_F(Pull, a_blob_that_is_there_without_its_link_is_linked_and_not_fetched) {
  pull();
  fs::remove(snapshot() / "model-00001-of-00002.safetensors");
  server_.forget_requests();
  EXPECT_EQ(pull().fetched, 0u);
  EXPECT_EQ(server_.count_of("/blob/"), 0u);
  expect_complete();
}

TEST_F(Pull, a_link_to_another_blob_is_corrected) {
  pull();
  const fs::path link = snapshot() / "model-00001-of-00002.safetensors";
  fs::remove(link);
  fs::create_symlink(
      "../../blobs/" + server_.repository(kModel).files.at("model-00002-of-00002.safetensors").etag, link);
  pull();
  expect_complete();
}

TEST_F(Pull, a_blob_in_a_store_that_repositories_share_is_used_and_left_alone) {
  pull();
  const fs::path blob_path = blob("model-00001-of-00002.safetensors");
  const fs::path store = fs::path(environment_.cache) / "blobs" / "ab" / "abcdef";
  fs::create_directories(store.parent_path());
  fs::rename(blob_path, store);
  fs::create_symlink("../../blobs/ab/abcdef", blob_path);
  fs::permissions(store, fs::perms::owner_read);
  fs::remove(snapshot() / "model-00001-of-00002.safetensors");
  EXPECT_EQ(pull().fetched, 0u);
  EXPECT_TRUE(fs::is_symlink(blob_path));
  EXPECT_TRUE(file_text(snapshot() / "model-00001-of-00002.safetensors") == first_);
}

TEST_F(Pull, a_blob_of_the_wrong_size_is_replaced) {
  pull();
  fs::resize_file(blob("model-00001-of-00002.safetensors"), 1000);
  pull();
  expect_complete();
}

TEST_F(Pull, where_there_are_no_links_the_files_stand_in_the_snapshot) {
  environment_.use_links = false;
  pull();
  const fs::path file = snapshot() / "model-00001-of-00002.safetensors";
  EXPECT_FALSE(fs::is_symlink(file));
  EXPECT_TRUE(file_text(file) == first_);
  EXPECT_TRUE(fs::is_empty(cached().blobs()));
  server_.forget_requests();
  EXPECT_EQ(pull().fetched, 0u);
  EXPECT_EQ(server_.count_of("resolve"), 0u);
}

TEST_F(Pull, without_links_a_blob_that_is_there_is_copied) {
  pull();
  environment_.use_links = false;
  fs::remove(snapshot() / "model-00001-of-00002.safetensors");
  EXPECT_EQ(pull().fetched, 0u);
  EXPECT_FALSE(fs::is_symlink(snapshot() / "model-00001-of-00002.safetensors"));
  EXPECT_TRUE(fs::exists(blob("model-00001-of-00002.safetensors")));
}

TEST_F(Pull, two_paths_with_the_same_bytes_are_fetched_once) {
  server_.add(kModel, "generation_config.json", R"({"same":true})");
  server_.add(kModel, "processor_config.json", R"({"same":true})");
  pull();
  EXPECT_EQ(server_.count_of("/resolve-cache/models/google/gemma-4-test-it/" + commit() +
                             "/generation_config.json") +
                server_.count_of("/resolve-cache/models/google/gemma-4-test-it/" + commit() +
                                 "/processor_config.json"),
            2u);  // HEAD and GET of one of them
  EXPECT_EQ(file_text(snapshot() / "generation_config.json"), R"({"same":true})");
  EXPECT_EQ(file_text(snapshot() / "processor_config.json"), R"({"same":true})");
}

TEST_F(Pull, an_empty_file_is_made_without_asking_for_its_bytes) {
  server_.add(kModel, "generation_config.json", "");
  pull();
  EXPECT_EQ(blob("generation_config.json").filename(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  expect_complete();
}

TEST_F(Pull, a_revision_is_a_branch_or_a_commit) {
  const std::string old = commit();
  pull(std::string(kModel) + "@" + old);
  EXPECT_FALSE(fs::exists(cached().reference("main")));
  EXPECT_EQ(find_local(parse_model_name(std::string(kModel) + "@" + old), environment_).presence,
            Presence::kComplete);
  const std::string words = fault_of([&] { pull(std::string(kModel) + "@no-such"); }, ErrorKind::kBadFile);
  expect_words(words, {"no revision 'no-such'", "tree/main"});
}

TEST_F(Pull, a_branch_may_have_a_slash_in_its_name) {
  server_.repository(kModel).branches.insert("feature/x");
  server_.forget_requests();
  const Pulled pulled = pull(std::string(kModel) + "@feature/x");
  EXPECT_EQ(server_.requests().front().target, "/api/models/google/gemma-4-test-it/revision/feature%2Fx");
  EXPECT_EQ(file_text(cached().reference("feature/x")), commit());
  EXPECT_EQ(resolve_model(std::string(kModel) + "@feature/x", environment_), pulled.folder);
  EXPECT_EQ(pull(std::string(kModel) + "@feature/x").fetched, 0u);
}

TEST_F(Pull, blobs_get_the_mode_that_the_umask_says) {
  const mode_t before = ::umask(0027);
  pull();
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat(blob("model-00001-of-00002.safetensors").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(Pull, what_is_not_needed_is_not_fetched) {
  pull();
  EXPECT_EQ(server_.count_of("original"), 0u);
  EXPECT_EQ(server_.count_of("README"), 0u);
}

TEST_F(Pull, a_second_pull_waits_for_the_first_and_fetches_nothing) {
  std::atomic<bool> holding{false};
  std::atomic<bool> release{false};
  script_for("/blob/" + first_etag(), [&](const test::FakeRequest& request, test::FakeReply&) {
    if (request.count > 0) return;
    holding = true;
    while (!release) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  std::thread first([&] {
    Recorder other;
    HubOptions own = options();
    own.client.clock = &net::real_clock();
    own.environment.silence = std::chrono::seconds(600);
    Hub hub(std::move(own));
    hub.pull(hub.plan(parse_model_name(kModel), {DrafterChoice::kNone}), {}, other);
  });
  while (!holding) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  listener_.each = {};
  std::thread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    release = true;
  });
  const Pulled pulled = pull();
  first.join();
  releaser.join();
  EXPECT_EQ(pulled.fetched, 0u);
  expect_words(listener_.notices, {"another pull of google/gemma-4-test-it is under way"});
  expect_complete();
}

TEST_F(Pull, a_lock_file_that_nobody_holds_is_no_lock) {
  fs::create_directories(cached().locks());
  std::ofstream(cached().locks() / "slipstream.lock") << "left over";
  std::ofstream(cached().locks() / (first_etag() + ".lock")) << "left over";
  pull();
  expect_complete();
}

/// A file system without locks or links, or of a size that a test chooses.
class PoorFiles : public WrappedFiles {
 public:
  std::unique_ptr<File> open(const fs::path& path) override {
    opened.push_back(path);
    return WrappedFiles::open(path);
  }
  bool link(const std::string& target, const fs::path& path) override {
    return links && WrappedFiles::link(target, path);
  }
  uint64_t free_bytes(const fs::path& folder) override {
    return free ? *free : WrappedFiles::free_bytes(folder);
  }
  LockAttempt try_lock(const fs::path& path) override {
    return locks ? WrappedFiles::try_lock(path) : LockAttempt{LockState::kUnsupported};
  }
  std::vector<fs::path> opened;
  bool links = true, locks = true;
  std::optional<uint64_t> free;
};

TEST_F(Pull, without_locks_each_run_has_partial_files_of_its_own) {
  PoorFiles files;
  files.locks = false;
  files_ = &files;
  pull();
  expect_complete();
  for (const fs::path& path : files.opened) {
    const std::string name = path.filename().string();
    if (name.ends_with(".slipstream")) {
      EXPECT_EQ(name.find(".slipstream"), name.find('.') + 9) << name;  // <etag>.<8 hex>.slipstream
    }
  }
}

TEST_F(Pull, a_file_system_that_refuses_links_is_noticed) {
  PoorFiles files;
  files.links = false;
  files_ = &files;
  pull();
  EXPECT_FALSE(fs::is_symlink(snapshot() / "config.json"));
  EXPECT_TRUE(file_text(snapshot() / "model-00001-of-00002.safetensors") == first_);
}

TEST_F(Pull, a_disk_that_is_too_small_is_refused_before_anything_is_fetched) {
  PoorFiles files;
  files.free = 1'000'000;
  files_ = &files;
  expect_words(fault_of([&] { pull(); }), {"6.29 MiB are missing", "977 KiB left", "HF_HUB_CACHE"});
  EXPECT_EQ(server_.count_of("/blob/"), 0u);
  EXPECT_FALSE(fs::exists(environment_.cache));
}

/// A file system on which nothing may change.
class ReadOnly : public WrappedFiles {
 public:
  std::unique_ptr<File> open(const fs::path& path) override { refuse(path); }
  void rename(const fs::path& from, const fs::path&) override { refuse(from); }
  void remove(const fs::path& path) override { refuse(path); }
  void remove_empty(const fs::path& path) override { refuse(path); }
  void remove_all(const fs::path& path) override { refuse(path); }
  bool link(const std::string&, const fs::path& path) override { refuse(path); }
  void make_folders(const fs::path& path) override { refuse(path); }
  void copy(const fs::path&, const fs::path& to) override { refuse(to); }
  LockAttempt try_lock(const fs::path& path) override { refuse(path); }

 private:
  [[noreturn]] static void refuse(const fs::path& path) {
    fail(ErrorKind::kRuntime, "{} may not change", path.string());
  }
};

TEST_F(Pull, a_complete_cache_may_be_read_only) {
  pull(kModel, true);
  ReadOnly files;
  files_ = &files;
  EXPECT_EQ(pull(kModel, true).fetched, 0u);
  EXPECT_EQ(resolve_model(kModel, environment_), snapshot().string());
  fs::remove(snapshot() / "config.json");
  expect_words(fault_of([&] { pull(); }), {"may not change"});
}

TEST_F(Pull, offline_nothing_is_asked_and_what_is_missing_is_named) {
  environment_.offline = true;
  expect_words(fault_of([&] { plan(); }), {"HF_HUB_OFFLINE", "no complete model"});
  environment_.offline = false;
  pull();
  server_.forget_requests();
  environment_.offline = true;
  EXPECT_EQ(pull().folder, snapshot().string());
  EXPECT_EQ(resolve_model(kModel, environment_), snapshot().string());
  EXPECT_TRUE(server_.requests().empty());
  fs::remove(blob("model-00002-of-00002.safetensors"));
  expect_words(fault_of([&] { plan(); }), {"HF_HUB_OFFLINE", "model-00002-of-00002.safetensors"});
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(Pull, without_a_network_a_complete_model_is_used_at_once) {
  pull();
  environment_.endpoint = "http://127.0.0.1:1";
  const Plan planned = plan();
  EXPECT_TRUE(planned.offline);
  expect_words(planned.offline_reason, {"cannot be reached", "HF_ENDPOINT"});
  EXPECT_EQ(planned.folder, snapshot().string());
  EXPECT_EQ(clock_.waited_seconds(), 0);
  expect_words(fault_of([&] { plan("google/gemma-4-E2B-it"); }),
               {"cannot be reached", "the cache holds google/gemma-4-test-it"});
}

TEST_F(Pull, main_moving_meanwhile_changes_nothing_for_this_pull) {
  server_.keep_history();
  Hub hub(options());
  const Plan planned = hub.plan(parse_model_name(kModel), {DrafterChoice::kNone});
  const std::string old = commit();
  server_.add(kModel, "model-00001-of-00002.safetensors", random_bytes(8, 3'000'000), true);
  server_.add(kModel, "chat_template.jinja", "{{ another }}");
  ASSERT_NE(commit(), old);
  server_.set_script([&](const test::FakeRequest& request, test::FakeReply&) {
    EXPECT_EQ(request.path.find("/resolve/main/"), std::string::npos);
  });
  const Pulled pulled = hub.pull(planned, {}, listener_);
  EXPECT_EQ(pulled.folder, cached().snapshot(old).string());
  EXPECT_EQ(file_text(cached().reference("main")), old);
  EXPECT_TRUE(file_text(cached().snapshot(old) / "model-00001-of-00002.safetensors") == first_);
  EXPECT_EQ(file_text(cached().snapshot(old) / "chat_template.jinja"), "{{ messages }}");
  server_.set_script({});
  pull();
  EXPECT_EQ(file_text(cached().reference("main")), commit());
}

TEST_F(Pull, one_connection_or_many_give_the_same_files) {
  for (const int connections : {1, 3, 32}) {
    fs::remove_all(environment_.cache);
    pull(kModel, false, connections);
    expect_complete();
  }
}

TEST_F(Pull, headers_of_weights_are_read_over_http_or_from_the_cache) {
  const test::FileTensors tensors{{"a", {"BF16", {2, 2}, "12345678"}}};
  const std::string weights = test::safetensors(tensors);
  server_.add("me/small", "config.json", "{\"model_type\":\"gemma4\"}");
  server_.add("me/small", "model.safetensors", weights, true);
  Hub hub(options());
  const Plan planned = hub.plan(parse_model_name("me/small"), {DrafterChoice::kNone});
  const auto check = [&](const PlannedRepository& repository) {
    const auto headers = hub.read_headers(repository);
    ASSERT_EQ(headers.size(), 1u);
    EXPECT_EQ(headers[0].file_size, weights.size());
    EXPECT_EQ(headers[0].bytes, weights.substr(0, weights.size() - 8));
  };
  check(planned.model);
  hub.write_outline(planned.model, folder_ / "outline");
  EXPECT_EQ(fs::file_size(folder_ / "outline/model.safetensors"), weights.size());
  EXPECT_EQ(file_text(folder_ / "outline/config.json"), "{\"model_type\":\"gemma4\"}");
  hub.pull(planned, {}, listener_);
  server_.forget_requests();
  check(hub.plan(parse_model_name("me/small"), {DrafterChoice::kNone}).model);
  EXPECT_EQ(server_.count_of("/blob/"), 0u);
}

}  // namespace
}  // namespace slip::hub
