// What the hub refuses, and what we refuse of it: codes, hostile listings, secrets.
#include "hub/hub_fixture.h"

namespace slip::hub {
namespace {

using test::FakeReply;
using test::FakeRequest;

using Refusals = HubTest;

/// A listing that holds this entry besides the usual ones.
test::FakeHub::Script with_entry(const std::string& entry) {
  return [entry](const FakeRequest&, FakeReply& reply) {
    if (reply.status != 200 || !reply.body.starts_with("[")) return;
    reply.body.insert(1, entry + ",");
  };
}

std::string file_entry(const std::string& path,
                       const std::string& oid = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
                       const std::string& size = "0") {
  return R"({"type":"file","path":")" + path + R"(","oid":")" + oid + R"(","size":)" + size + "}";
}

TEST_F(Refusals, a_repository_that_is_not_there_may_also_be_private) {
  const std::string words = fault_of([&] { plan("google/gemma-4-nothing"); }, ErrorKind::kBadFile);
  expect_words(words, {"no model google/gemma-4-nothing", "private", "HF_TOKEN", "401", "Root=1-fake"});
  EXPECT_EQ(words.find("or the token is not valid"), std::string::npos);
  environment_.token = "hf_x";
  expect_words(fault_of([&] { plan("google/gemma-4-nothing"); }, ErrorKind::kBadFile),
               {"the token is not valid"});
}

TEST_F(Refusals, a_mistyped_name_gets_a_guess) {
  expect_words(fault_of([&] { plan("google/gemma-4-E2B-ti"); }, ErrorKind::kBadFile),
               {"did you mean", "google/gemma-4-E2B-it"});
  expect_words(fault_of([&] { plan("gemma-4-e2x"); }, ErrorKind::kBadFile), {"did you mean", "gemma-4-e2b"});
  EXPECT_EQ(server_.count_of("gemma-4-e2x"), 0u);
}

TEST_F(Refusals, a_404_with_a_token_is_a_typo_or_no_access) {
  script_for("/revision/", [](const FakeRequest&, FakeReply& reply) {
    reply.become(404, R"({"error":"Repository not found"})");
    reply.set("X-Error-Code", "RepoNotFound");
  });
  expect_words(fault_of([&] { plan(); }, ErrorKind::kBadFile),
               {"mistyped", "no access", "Repository not found"});
}

TEST_F(Refusals, a_gated_model_says_where_to_accept_its_terms) {
  server_.add("me/single", "config.json", "{}");
  server_.add("me/single", "model.safetensors", "weights", true);
  server_.repository("me/single").gated = "\"auto\"";
  EXPECT_TRUE(plan("me/single").model.gated);  // info and listing stay public
  server_.repository(kModel).gated = "\"manual\"";
  std::string words = fault_of([&] { pull(); }, ErrorKind::kBadFile);
  expect_words(words, {"gated", server_.url() + "/" + kModel, "HF_TOKEN"});
  environment_.token = "hf_mine";
  script_for("/resolve/", [](const FakeRequest&, FakeReply& reply) {
    reply.become(403, "");
    reply.set("X-Error-Code", "GatedRepo");
    reply.set("X-Error-Message", "Your request is awaiting a review.");
  });
  words = fault_of([&] { pull(); }, ErrorKind::kBadFile);
  expect_words(words, {"no access yet", server_.url() + "/" + kModel, "awaiting a review"});
}

TEST_F(Refusals, a_disabled_repository_is_told_with_the_hubs_words) {
  script_for("/revision/", [](const FakeRequest&, FakeReply& reply) {
    reply.become(403, "");
    reply.set("X-Error-Message", "Access to this resource is disabled.");
  });
  expect_words(fault_of([&] { plan(); }, ErrorKind::kBadFile), {"disabled", "token"});
}

TEST_F(Refusals, a_file_that_vanished_is_named) {
  Hub hub(options());
  const Plan planned = hub.plan(parse_model_name(kModel), {DrafterChoice::kNone});
  script_for("/resolve/", [](const FakeRequest& request, FakeReply& reply) {
    if (request.path.find("model-00002") == std::string::npos) return;
    reply.become(404, "");
    reply.set("X-Error-Code", "EntryNotFound");
  });
  expect_words(fault_of([&] { hub.pull(planned, {}, listener_); }, ErrorKind::kBadFile),
               {"no file 'model-00002-of-00002.safetensors'"});
}

TEST_F(Refusals, a_listing_of_several_pages_is_read_to_its_end) {
  test::FakeHub paged({.page = 2});
  for (const auto& [path, file] : server_.repository(kModel).files)
    paged.add(kModel, path, file.content, file.large);
  environment_.endpoint = paged.url();
  EXPECT_EQ(plan().model.files.size(), 9u);
  EXPECT_EQ(paged.count_of("/tree/"), 6u);
}

TEST_F(Refusals, a_listing_without_end_is_refused) {
  script_for("/tree/", [&](const FakeRequest& request, FakeReply& reply) {
    reply.body = "[]";
    reply.set("Link", "<" + server_.url() + request.path + "?cursor=0>; rel=\"next\"");
  });
  expect_words(fault_of([&] { plan(); }), {"does not end after 200 pages"});
}

TEST_F(Refusals, a_listing_that_continues_elsewhere_is_refused) {
  script_for("/tree/", [&](const FakeRequest&, FakeReply& reply) {
    reply.set("Link", "<" + server_.storage_url() + "/x>; rel=\"next\"");
  });
  expect_words(fault_of([&] { plan(); }), {"another host"});
}

TEST_F(Refusals, more_json_than_belongs_in_an_answer_is_cut_off) {
  for (const char* part : {"/revision/", "/tree/"}) {
    server_.forget_requests();
    script_for(part, [](const FakeRequest&, FakeReply& reply) {
      reply.become(200, "[" + std::string(size_t{40} << 20, ' '));
    });
    expect_words(fault_of([&] { plan(); }), {"sends more than 16777216 bytes"});
    EXPECT_LT(server_.sent_of(part), uint64_t{40} << 20);
  }
}

TEST_F(Refusals, json_nested_without_end_is_refused) {
  script_for("/tree/",
             [](const FakeRequest&, FakeReply& reply) { reply.become(200, std::string(1 << 20, '[')); });
  expect_words(fault_of([&] { plan(); }), {"nested more than 64"});
}

TEST_F(Refusals, paths_that_could_leave_the_folder_are_refused) {
  for (const char* path : {"../x", "a/../../x", "/etc/passwd", "C:x", "a\\\\b", ".", "..", "a//b", "a/", "",
                           "a\\u0000b", "a\\u001b[2J", "a\\nb", "\\ud800"}) {
    script_for("/tree/", with_entry(file_entry(path)));
    try {
      plan();
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\x1b'), std::string::npos);
    }
  }
  script_for("/tree/", with_entry(file_entry("fine/x.txt")));
  EXPECT_EQ(plan().model.files.size(), 9u);
  EXPECT_FALSE(fs::exists(environment_.cache));
}

TEST_F(Refusals, entries_that_are_no_files_of_a_known_hash_and_size_are_refused) {
  const std::string sha = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
  for (const std::string& entry :
       {file_entry("x", "../../etc"), file_entry("x", "E69DE29BB2D1D6434B8B29AE775AD8C2E48C5391"),
        file_entry("x", ""), file_entry("x", sha, "-1"), file_entry("x", sha, "1e300"),
        file_entry("x", sha, "99999999999999999999"), file_entry("x", sha, "\"5\""),
        std::string(R"({"type":"symlink","path":"x","oid":")") + sha + R"(","size":0})",
        std::string(R"({"type":"file","path":"x","oid":")") + sha +
            R"(","size":5,"lfs":{"oid":"zz","size":5}})",
        std::string(R"({"type":"file","path":"x","oid":")") + sha + R"(","size":5,"lfs":7})",
        std::string(R"({"type":"file","path":"config.json","oid":")") + sha + R"(","size":5})",
        std::string(R"({"type":"file","path":"config.json/x","oid":")") + sha + R"(","size":5})",
        std::string("7"), std::string("null")}) {
    script_for("/tree/", with_entry(entry));
    EXPECT_THROW(plan(), Error) << entry;
  }
}

TEST_F(Refusals, a_commit_that_is_none_is_refused) {
  for (const char* commit : {"../../x", "", "main", "ABCDEF0123456789ABCDEF0123456789ABCDEF01"}) {
    script_for("/revision/", [&](const FakeRequest&, FakeReply& reply) {
      reply.become(200, R"({"id":"google/gemma-4-test-it","sha":")" + std::string(commit) + "\"}");
    });
    EXPECT_THROW(plan(), Error) << commit;
  }
}

TEST_F(Refusals, a_repository_that_names_itself_out_of_the_cache_is_refused) {
  for (const char* id : {"../../x", "a/../../b", "x", "a/b/c"}) {
    script_for("/revision/", [&](const FakeRequest&, FakeReply& reply) {
      reply.become(200, R"({"id":")" + std::string(id) + R"(","sha":")" + commit() + "\"}");
    });
    EXPECT_THROW(plan(), Error) << id;
  }
}

TEST_F(Refusals, an_index_that_names_a_shard_the_repository_lacks_is_refused_before_any_bytes) {
  server_.remove(kModel, "model-00002-of-00002.safetensors");
  expect_words(fault_of([&] { pull(); }, ErrorKind::kBadFile),
               {"model-00002-of-00002.safetensors", "does not have", "nothing is downloaded"});
  EXPECT_EQ(server_.count_of("/blob/"), 0u);
  EXPECT_FALSE(fs::exists(environment_.cache));
}

TEST_F(Refusals, an_index_that_names_a_path_is_refused) {
  server_.add(kModel, "model.safetensors.index.json", R"({"weight_map":{"a":"../x.safetensors"}})");
  expect_words(fault_of([&] { plan(); }, ErrorKind::kBadFile), {"not a file name"});
}

TEST_F(Refusals, gguf_alone_gets_one_sentence) {
  server_.add("me/quantised", "model-Q4_K_M.gguf", "GGUF", true);
  expect_words(fault_of([&] { plan("me/quantised"); }, ErrorKind::kBadFile), {"GGUF files only"});
}

TEST_F(Refusals, a_repository_without_weights_gets_one_sentence) {
  server_.add("me/nothing", "config.json", "{}");
  expect_words(fault_of([&] { plan("me/nothing"); }, ErrorKind::kBadFile), {"no weights"});
  server_.add("me/nothing", "extra.safetensors", "x", true);
  expect_words(fault_of([&] { plan("me/nothing"); }, ErrorKind::kBadFile), {"model.safetensors"});
  server_.add("me/other", "README.md", "x");
  expect_words(fault_of([&] { plan("me/other"); }, ErrorKind::kBadFile), {"no config.json"});
}

TEST_F(Refusals, a_small_file_that_differs_from_its_hash_is_refused) {
  script_for("model.safetensors.index.json", [](const FakeRequest&, FakeReply& reply) {
    if (reply.file != nullptr) reply.become(200, R"({"weight_map":{}})");
  });
  expect_words(fault_of([&] { plan(); }), {"are not this file"});
}

TEST_F(Refusals, another_file_behind_a_resolve_is_noticed) {
  script_for("/resolve/" + commit() + "/model-00001", [](const FakeRequest&, FakeReply& reply) {
    reply.set("X-Linked-Etag", "\"" + std::string(64, 'a') + "\"");
  });
  expect_words(fault_of([&] { pull(); }), {"is another file"});
}

TEST_F(Refusals, a_hash_in_a_weak_etag_is_a_hash) {
  script_for("/resolve/" + commit() + "/model-00001", [](const FakeRequest&, FakeReply& reply) {
    reply.set("X-Linked-Etag", "W/\"" + std::string(64, 'a') + "\"");
  });
  expect_words(fault_of([&] { pull(); }), {"is another file"});
}

TEST_F(Refusals, the_token_is_in_no_message) {
  environment_.token = "hf_verysecret";
  std::string all;
  const auto collect = [&](auto&& work) {
    try {
      work();
    } catch (const Error& error) {
      all += std::string(error.what()) + "\n";
    }
  };
  // A server that says back what it was told, in every way it has.
  for (const int status : {400, 401, 403, 404, 429, 500, 503}) {
    for (const char* part : {"/revision/", "/tree/", "/resolve/", "/blob/"}) {
      fs::remove_all(environment_.cache);
      script_for(part, [&](const FakeRequest&, FakeReply& reply) {
        reply.become(status, R"({"error":"you sent Bearer hf_verysecret"})");
        reply.set("X-Error-Message", "bad token hf_verysecret");
        reply.set("X-Request-Id", "hf_verysecret");
      });
      collect([&] { pull(); });
    }
  }
  environment_.endpoint = "http://user:hf_verysecret@127.0.0.1:1";
  collect([&] { plan(); });
  EXPECT_GT(all.size(), 1000u);
  EXPECT_EQ((all + listener_.notices).find("verysecret"), std::string::npos) << all << listener_.notices;
}

TEST_F(Refusals, signatures_of_addresses_are_in_no_message) {
  script_for("/blob/", [](const FakeRequest&, FakeReply& reply) { reply.become(403, "no"); });
  const std::string words = fault_of([&] { pull(); });
  EXPECT_EQ(words.find("Signature"), std::string::npos) << words;
}

TEST_F(Refusals, a_renamed_repository_is_followed) {
  server_.set_script([&](const FakeRequest& request, FakeReply& reply) {
    const std::string old = "/google/old-name";
    const size_t at = request.target.find(old);
    if (at == std::string::npos) return;
    std::string target = request.target;
    reply.become(307, "");
    reply.set("Location", target.replace(at, old.size(), std::string("/") + kModel));
  });
  const Pulled pulled = pull("google/old-name");
  EXPECT_TRUE(pulled.folder.find("models--google--old-name") != std::string::npos);
  EXPECT_EQ(resolve_model("google/old-name", environment_), pulled.folder);
}

TEST_F(Refusals, a_name_in_the_wrong_case_lands_where_the_hub_has_it) {
  server_.set_script([&](const FakeRequest& request, FakeReply& reply) {
    const std::string typed = "/GOOGLE/gemma-4-TEST-it";
    const size_t at = request.target.find(typed);
    if (at == std::string::npos) return;
    std::string target = request.target;
    reply.become(307, "");
    reply.set("Location", target.replace(at, typed.size(), std::string("/") + kModel));
  });
  const Pulled pulled = pull("GOOGLE/gemma-4-TEST-it");
  EXPECT_EQ(pulled.folder, snapshot().string());
}

class Tls : public HubTest {
 protected:
  Tls() : HubTest({.tls = true}) {}
};

TEST_F(Tls, certificates_are_checked) {
  HubOptions trusting = options();
  trusting.client.authorities = folder_.write("authority.pem", server_.authority());
  Hub hub(std::move(trusting));
  hub.pull(hub.plan(parse_model_name(kModel), {DrafterChoice::kNone}), {}, listener_);
  expect_complete();
}

TEST_F(Tls, a_certificate_of_an_unknown_authority_is_refused) {
  environment_.token = "hf_secret";
  const test::FakeHub other({.tls = true});
  HubOptions wary = options();
  wary.client.authorities = folder_.write("authority.pem", other.authority());
  expect_words(fault_of([&] { Hub(std::move(wary)).plan(parse_model_name(kModel)); }),
               {"certificate of 127.0.0.1 is not valid"});
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(Tls, a_machine_without_authorities_is_told_the_package) {
  HubOptions bare = options();
  bare.client.authorities = folder_ / "no-such-file.pem";
  expect_words(fault_of([&] { Hub(std::move(bare)).plan(parse_model_name(kModel)); }), {"ca-certificates"});
}

TEST_F(Refusals, a_proxy_that_wants_a_password_is_named) {
  test::FakeHub proxy;
  proxy.set_script([](const FakeRequest&, FakeReply& reply) {
    reply.become(407, "");
    reply.set("Proxy-Authenticate", "Basic realm=\"x\"");
  });
  HubOptions behind = options();
  behind.client.proxy = proxy.url();
  expect_words(fault_of([&] { Hub(std::move(behind)).plan(parse_model_name(kModel)); }), {"proxy", "407"});
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(Tls, a_proxy_never_sees_the_token) {
  environment_.token = "hf_secret";
  test::FakeHub proxy;
  proxy.set_script([](const FakeRequest& request, FakeReply& reply) {
    EXPECT_EQ(request.method, "CONNECT");
    EXPECT_EQ(request.header("authorization"), "");
    reply.become(407, "");
  });
  HubOptions behind = options();
  behind.client.proxy = proxy.url();
  expect_words(fault_of([&] { Hub(std::move(behind)).plan(parse_model_name(kModel)); }), {"proxy", "407"});
  EXPECT_EQ(proxy.requests().size(), 1u);
}

}  // namespace
}  // namespace slip::hub
