// Caches that other programs, other file systems and accidents left: what is usable of them is used, what is
// not is made whole again, and nothing that was there is lost.
#include "hub/hub_fixture.h"
#include "hub/wrapped_files.h"

namespace slip::hub {
namespace {

using OddCache = HubTest;

constexpr const char* kFirst = "model-00001-of-00002.safetensors";

LocalModel local(const Environment& environment, const std::string& name) {
  return find_local(parse_model_name(name), environment);
}

TEST_F(OddCache, a_link_whose_blob_is_gone_is_missing_and_fetched_again) {
  pull();
  fs::remove(blob(kFirst));
  EXPECT_EQ(local(environment_, kModel).missing, std::vector<std::string>{kFirst});
  EXPECT_EQ(pull().fetched, first_.size());
  expect_complete();
}

TEST_F(OddCache, a_blob_that_links_to_a_store_that_is_gone_is_fetched_again) {
  pull();
  fs::remove(blob(kFirst));
  fs::create_symlink("../../blobs/ab/gone", blob(kFirst));
  EXPECT_EQ(local(environment_, kModel).presence, Presence::kPartial);
  EXPECT_EQ(pull().fetched, first_.size());
  expect_complete();
}

TEST_F(OddCache, without_references_the_snapshot_is_used_and_the_reference_written) {
  pull();
  fs::remove_all(cached().folder() / "refs");
  EXPECT_EQ(local(environment_, kModel).folder, snapshot().string());
  server_.forget_requests();
  EXPECT_EQ(pull().fetched, 0u);
  expect_complete();
}

TEST_F(OddCache, a_reference_with_a_line_end_is_read_and_set_right) {
  pull();
  std::ofstream(cached().reference("main")) << commit() << "\n";
  EXPECT_EQ(local(environment_, kModel).presence, Presence::kComplete);
  pull();
  EXPECT_EQ(local(environment_, kModel).presence, Presence::kComplete);
}

TEST_F(OddCache, a_reference_to_a_commit_that_is_gone_falls_back_and_is_corrected) {
  pull();
  std::ofstream(cached().reference("main")) << std::string(40, 'f');
  EXPECT_EQ(local(environment_, kModel).folder, snapshot().string());
  EXPECT_EQ(pull().fetched, 0u);
  expect_complete();
}

TEST_F(OddCache, files_in_place_of_links_are_used_as_they_are) {
  pull();
  for (const auto& entry : fs::directory_iterator(snapshot())) {
    const fs::path blob_path = fs::canonical(entry.path());
    fs::remove(entry.path());
    fs::rename(blob_path, entry.path());
  }
  EXPECT_EQ(local(environment_, kModel).presence, Presence::kComplete);
  server_.forget_requests();
  EXPECT_EQ(pull().fetched, 0u);
  EXPECT_EQ(server_.count_of("resolve"), 0u);
  EXPECT_FALSE(fs::is_symlink(snapshot() / "config.json"));
}

TEST_F(OddCache, links_that_are_absolute_are_used) {
  pull();
  const fs::path link = snapshot() / kFirst;
  fs::remove(link);
  fs::create_symlink(fs::absolute(blob(kFirst)), link);
  EXPECT_EQ(local(environment_, kModel).presence, Presence::kComplete);
  EXPECT_EQ(pull().fetched, 0u);
}

TEST_F(OddCache, revisions_that_share_blobs_are_whole_each_and_survive_each_other) {
  server_.repository(kModel).branches.insert("next");
  pull(std::string(kModel) + "@next");
  const std::string old = commit();
  server_.add(kModel, "chat_template.jinja", "{{ messages }} and more");
  server_.repository(kModel).branches = {"main"};
  pull();
  EXPECT_EQ(file_text(cached().reference("next")), old);
  const auto next = local(environment_, std::string(kModel) + "@next");
  EXPECT_EQ(next.commit, old);
  EXPECT_EQ(next.presence, Presence::kComplete);
  EXPECT_EQ(fs::canonical(fs::path(next.folder) / kFirst), fs::canonical(snapshot() / kFirst));
  remove(plan_removal(parse_model_name(kModel + std::string("@next")), environment_), environment_);
  EXPECT_EQ(local(environment_, kModel).presence, Presence::kComplete);
  EXPECT_EQ(local(environment_, std::string(kModel) + "@next").presence, Presence::kAbsent);
  expect_complete();
}

TEST_F(OddCache, a_cache_behind_a_link_is_a_cache) {
  fs::create_directories(folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", environment_.cache);
  pull();
  expect_complete();
  EXPECT_TRUE(fs::is_symlink(environment_.cache));
}

TEST_F(OddCache, parts_of_other_programs_are_neither_used_nor_touched) {
  fs::create_directories(cached().blobs());
  for (const std::string& name : {first_etag() + ".incomplete", first_etag() + ".0a1b2c3d.incomplete",
                                  first_etag() + ".downloadInProgress"}) {
    std::ofstream(cached().blobs() / name) << "theirs";
  }
  pull();
  EXPECT_TRUE(file_text(snapshot() / kFirst) == first_);
  EXPECT_EQ(file_text(cached().blobs() / (first_etag() + ".incomplete")), "theirs");
}

TEST_F(OddCache, a_link_in_place_of_our_partial_file_is_not_written_through) {
  fs::create_directories(cached().blobs());
  const fs::path precious = folder_ / "precious";
  std::ofstream(precious) << "keep me";
  fs::create_symlink(precious, blob(kFirst).string() + ".slipstream");
  fault_of([&] { pull(); });
  EXPECT_EQ(file_text(precious), "keep me");
}

TEST_F(OddCache, what_is_no_repository_is_passed_over) {
  pull();
  const fs::path cache = environment_.cache;
  std::ofstream(cache / "models--file--not-folder") << "x";
  fs::create_directories(cache / "models--empty--repository");
  fs::create_directories(cache / "models--no-snapshot--x" / "refs");
  std::ofstream(cache / "models--no-snapshot--x" / "refs" / "main") << std::string(40, 'a');
  fs::create_directories(cache / "spaces--a--b" / "snapshots");
  EXPECT_EQ(local(environment_, kModel).presence, Presence::kComplete);
  EXPECT_EQ(local(environment_, "no-snapshot/x").presence, Presence::kAbsent);
  EXPECT_NO_THROW(list_models(environment_));
}

TEST_F(OddCache, of_names_that_differ_in_case_alone_the_exact_one_counts) {
  pull();
  const fs::path other = fs::path(environment_.cache) / "models--Google--gemma-4-test-it";
  fs::copy(cached().folder(), other, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  EXPECT_EQ(local(environment_, kModel).folder, snapshot().string());
  EXPECT_EQ(local(environment_, "Google/gemma-4-test-it").folder, (other / "snapshots" / commit()).string());
  // The hub knows one repository by both names, but which of the two folders is meant is not for us to guess.
  expect_words(fault_of([&] { local(environment_, "GOOGLE/gemma-4-test-it"); }, ErrorKind::kBadFile),
               {"fits 2 cached models"});
}

TEST_F(OddCache, an_empty_mistake_of_a_cache_folder_is_one_sentence) {
  std::ofstream(environment_.cache) << "a file where the cache should be";
  fault_of([&] { pull(); });
  EXPECT_EQ(file_text(environment_.cache), "a file where the cache should be");
}

}  // namespace
}  // namespace slip::hub
