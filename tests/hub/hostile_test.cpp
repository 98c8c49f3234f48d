// Servers that are stranger than the hub: what they say of lengths, ranges and redirects is wrong or hostile.
// Whatever they do, files are right or refused, and the token stays where it belongs.
#include <thread>

#include "hub/hub_fixture.h"

namespace slip::hub {
namespace {

using test::FakeReply;
using test::FakeRequest;

class Hostile : public HubTest {
 protected:
  std::string first_path() { return "/blob/" + first_etag(); }
  std::string shard() { return "/resolve/" + commit() + "/model-00001"; }
  void expect_nothing_left(const std::string& name = kModel) {
    EXPECT_FALSE(fs::exists(cached(name).folder())) << "empty folders are a repository to nobody";
  }
};

TEST_F(Hostile, a_server_without_any_etag_still_gives_files_that_are_checked) {
  script_for("/resolve", [](const FakeRequest&, FakeReply& reply) {
    for (const char* name : {"ETag", "X-Linked-Etag", "X-Linked-Size", "X-Repo-Commit"}) reply.drop(name);
  });
  pull();
  expect_complete();
}

TEST_F(Hostile, a_mirrors_own_kind_of_etag_says_nothing) {
  script_for("/resolve", [](const FakeRequest&, FakeReply& reply) {
    for (const char* name : {"ETag", "X-Linked-Etag"}) reply.set(name, "\"5f3a-17\"");
  });
  pull();
  expect_complete();
}

TEST_F(Hostile, a_size_that_differs_from_the_list_is_noticed_before_any_byte) {
  script_for(shard(), [](const FakeRequest&, FakeReply& reply) { reply.set("X-Linked-Size", "17"); });
  expect_words(fault_of([&] { pull(); }), {"is another file"});
  EXPECT_EQ(server_.sent_of(first_path()), 0u);
}

TEST_F(Hostile, a_length_that_is_not_the_parts_is_not_believed) {
  for (const char* length : {"1", "3299999", "99999999999999999999999", "-5", "0x10"}) {
    fs::remove_all(environment_.cache);
    server_.forget_requests();
    // Once: the next reply is as it should be.
    script_for(first_path(), [&](const FakeRequest& request, FakeReply& reply) {
      if (request.count > 0) return;
      reply.set("Content-Length", length);
      reply.cut_after = 100'000;
    });
    pull();
    expect_complete();
  }
}

TEST_F(Hostile, a_length_that_is_always_wrong_is_an_error_and_no_loop) {
  script_for(first_path(),
             [](const FakeRequest&, FakeReply& reply) { reply.set("Content-Length", "4000000"); });
  fault_of([&] { pull(); });
  EXPECT_LE(server_.count_of(first_path()), 8u);
  EXPECT_FALSE(fs::exists(blob("model-00001-of-00002.safetensors")));
}

TEST_F(Hostile, a_part_without_a_range_in_its_head_is_not_written) {
  script_for(first_path(), [](const FakeRequest& request, FakeReply& reply) {
    if (request.count == 0) reply.cut_after = 1'200'000;
    if (request.count == 1) reply.drop("Content-Range");
  });
  pull();
  expect_complete();
}

TEST_F(Hostile, a_part_that_claims_to_be_compressed_is_refused) {
  script_for(first_path(), [](const FakeRequest& request, FakeReply& reply) {
    if (request.count == 0) reply.cut_after = 1'200'000;
    if (request.count == 1) reply.set("Content-Encoding", "gzip");
  });
  pull();
  expect_complete();
}

TEST_F(Hostile, a_file_that_claims_to_be_compressed_and_is_not_is_an_error) {
  script_for(first_path(),
             [](const FakeRequest&, FakeReply& reply) { reply.set("Content-Encoding", "gzip"); });
  fault_of([&] { pull(); });
  EXPECT_FALSE(fs::exists(blob("model-00001-of-00002.safetensors")));
}

TEST_F(Hostile, storage_that_sends_every_request_on_is_followed) {
  test::FakeHub other;
  environment_.token = "hf_secret";
  first_ = random_bytes(9, 40'000'000);
  server_.add(kModel, "model-00001-of-00002.safetensors", first_, true);
  other.add("x/y", "f", first_, true);
  script_for(first_path(), [&](const FakeRequest& request, FakeReply& reply) {
    reply.become(302, "moved");
    // As the hub does: this address serves the range it was made for, and no other.
    const std::string range = request.header("range");
    reply.set("Location", other.storage_url() + request.path + "?Signature=1" +
                              (range.empty() ? "" : "&bound=" + range.substr(6)));
  });
  pull(kModel, false, 4);
  expect_complete();
  for (const FakeRequest& request : other.requests()) EXPECT_EQ(request.header("authorization"), "");
  EXPECT_GT(other.requests().size(), 1u);
}

TEST_F(Hostile, storage_that_redirects_in_a_circle_is_an_error) {
  script_for(first_path(), [&](const FakeRequest& request, FakeReply& reply) {
    reply.become(302, "");
    reply.set("Location", server_.storage_url() + request.path + "?again");
  });
  expect_words(fault_of([&] { pull(); }), {"redirects more than 10 times"});
  EXPECT_EQ(server_.count_of(first_path()), 11u);
}

TEST_F(Hostile, two_hosts_that_redirect_to_each_other_are_an_error) {
  test::FakeHub other;
  environment_.token = "hf_secret";
  other.set_script([&](const FakeRequest& request, FakeReply& reply) {
    EXPECT_EQ(request.header("authorization"), "");
    reply.become(307, "");
    reply.set("Location", server_.url() + request.target);
  });
  server_.set_script([&](const FakeRequest& request, FakeReply& reply) {
    reply.become(307, "");
    reply.set("Location", other.url() + request.target);
  });
  expect_words(fault_of([&] { plan(); }), {"redirects more than 10 times"});
}

TEST_F(Hostile, an_unfinished_pull_of_a_gated_model_leaves_no_folder) {
  server_.repository(kModel).gated = "\"manual\"";
  fault_of([&] { pull(); }, ErrorKind::kBadFile);
  expect_nothing_left();
}

TEST_F(Hostile, a_pull_that_got_nothing_leaves_no_folder_and_one_that_got_some_keeps_it) {
  script_for("/blob/", [](const FakeRequest&, FakeReply& reply) { reply.become(403, "no"); });
  script_for("/", [](const FakeRequest& request, FakeReply& reply) {
    if (request.method == "HEAD" || request.storage) reply.become(403, "no");
  });
  Hub hub(options());
  const Plan planned = hub.plan(parse_model_name(kModel), {DrafterChoice::kNone});
  fault_of([&] { hub.pull(planned, {}, listener_); }, ErrorKind::kBadFile);
  expect_nothing_left();
  script_for("/blob/" + first_etag(),
             [](const FakeRequest&, FakeReply& reply) { reply.cut_after = 1'500'000; });
  script_for(first_path(), [](const FakeRequest& request, FakeReply& reply) {
    if (request.count == 0) reply.cut_after = 2'500'000;
    if (request.count > 0) reply.become(403, "no");
  });
  fault_of([&] { pull(kModel, false, 1); });
  EXPECT_GT(plan().there(), 0u);
}

TEST_F(Hostile, names_of_other_scripts_are_names) {
  const std::string name = "модель-00001-of-00001.safetensors", folder = "me/other-script";
  server_.add(folder, "config.json", "{}");
  server_.add(folder, "model.safetensors.index.json", R"({"weight_map":{"a":")" + name + R"("}})");
  server_.add(folder, name, "weights", true);
  server_.add(folder, "模型 卡.md", "for people");
  pull(folder);
  EXPECT_EQ(file_text(snapshot(folder) / name), "weights");
}

TEST_F(Hostile, names_that_differ_in_case_alone_are_two_files) {
  server_.add(kModel, "Config.json", "not this one");
  server_.add(kModel, "CONFIG.JSON", "nor this one");
  pull();
  EXPECT_NE(file_text(snapshot() / "config.json").find("gemma4"), std::string::npos);
  EXPECT_FALSE(fs::exists(snapshot() / "Config.json"));
}

TEST_F(Hostile, a_head_that_never_ends_is_cut_off) {
  script_for("/revision/", [](const FakeRequest&, FakeReply& reply) {
    for (int i = 0; i < 5000; ++i)
      reply.headers.emplace_back("X-" + std::to_string(i), std::string(1000, 'x'));
  });
  fault_of([&] { plan(); });
  EXPECT_FALSE(fs::exists(environment_.cache));
}

TEST_F(Hostile, a_list_that_drips_is_given_up) {
  script_for("/tree/", [&](const FakeRequest&, FakeReply& reply) {
    reply.drip_after = 10;
    reply.on_drip = [&] {
      clock_.advance(std::chrono::seconds(9));
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    };
  });
  expect_words(fault_of([&] { plan(); }), {"127.0.0.1"});
}

class HostileTls : public HubTest {
 protected:
  HostileTls() : HubTest({.tls = true}) {}
  HubOptions trusting() {
    HubOptions result = options();
    result.client.authorities = folder_.write("authority.pem", server_.authority());
    return result;
  }
};

TEST_F(HostileTls, a_redirect_that_gives_up_encryption_is_refused) {
  environment_.token = "hf_secret";
  test::FakeHub plain;
  for (const auto& [path, file] : server_.repository(kModel).files)
    plain.add(kModel, path, file.content, file.large);
  for (const char* part : {"/revision/", "/tree/", "/resolve/", "/blob/"}) {
    fs::remove_all(environment_.cache);
    script_for(part, [&](const FakeRequest& request, FakeReply& reply) {
      reply.become(307, "");
      reply.set("Location", (request.storage ? plain.storage_url() : plain.url()) + request.target);
    });
    expect_words(fault_of([&] {
                   Hub hub(trusting());
                   hub.pull(hub.plan(parse_model_name(kModel), {DrafterChoice::kNone}), {}, listener_);
                 }),
                 {"from https to http", "refused"});
  }
  EXPECT_TRUE(plain.requests().empty());
}

}  // namespace
}  // namespace slip::hub
