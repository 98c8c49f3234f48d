// What servers and lines do wrong while a file comes, each by the script of a fake hub.
#include <thread>

#include "hub/hub_fixture.h"
#include "hub/wrapped_files.h"

namespace slip::hub {
namespace {

using test::FakeReply;
using test::FakeRequest;

class Faults : public HubTest {
 protected:
  /// Changes the first GET of the first shard's bytes; later ones are as they should be.
  void first_get(std::function<void(FakeReply&)> change) {
    script_for("/blob/" + first_etag(), [change](const FakeRequest& request, FakeReply& reply) {
      if (request.count == 0) change(reply);
    });
  }
  void every_get(std::function<void(FakeReply&)> change) {
    script_for("/blob/" + first_etag(), [change](const FakeRequest&, FakeReply& reply) { change(reply); });
  }
  size_t gets() { return server_.count_of("/blob/" + first_etag()); }
  size_t resolves() { return server_.count_of("/resolve/" + commit() + "/model-00001-of-00002.safetensors"); }
  std::string last_range() {
    std::string range;
    for (const FakeRequest& request : server_.requests()) {
      if (request.path == "/blob/" + first_etag()) range = request.header("range");
    }
    return range;
  }
};

TEST_F(Faults, a_dropped_connection_goes_on_where_it_broke) {
  first_get([](FakeReply& reply) { reply.cut_after = 1'500'000; });
  pull();
  expect_complete();
  EXPECT_EQ(gets(), 2u);
  const uint64_t from = std::stoull(last_range().substr(6));
  EXPECT_GT(from, 0u);
  EXPECT_LE(from, 1'500'000u);
  EXPECT_EQ(server_.sent_of("/blob/" + first_etag()) - first_.size(), 1'500'000 - from);
}

TEST_F(Faults, five_tries_without_a_new_byte_are_enough) {
  every_get([](FakeReply& reply) { reply.cut_after = 0; });
  expect_words(fault_of([&] { pull(); }),
               {"model-00001-of-00002.safetensors", "127.0.0.1", "run the command again"});
  EXPECT_EQ(gets(), 6u);
  EXPECT_EQ(clock_.waited_seconds(), 5);
}

TEST_F(Faults, tries_are_counted_anew_when_bytes_come) {
  every_get([](FakeReply& reply) { reply.cut_after = 300'000; });
  pull();
  expect_complete();
  EXPECT_GE(gets(), 11u);
}

TEST_F(Faults, a_server_without_ranges_sends_the_file_from_its_start) {
  int whole = 0;
  every_get([&](FakeReply& reply) {
    if (reply.status == 206) {
      reply.status = 200;
      reply.drop("Content-Range");
      reply.begin = 0;
      reply.end = reply.file->size;
    }
    // The first attempt breaks off, so that a range is asked for and refused.
    if (whole++ == 0) reply.cut_after = 1'000'000;
  });
  pull();
  expect_complete();
}

TEST_F(Faults, a_large_file_of_a_server_without_ranges_takes_one_connection) {
  first_ = random_bytes(9, 20'000'000);
  server_.add(kModel, "model-00001-of-00002.safetensors", first_, true);
  every_get([&](FakeReply& reply) {
    if (reply.status != 206) return;
    reply.status = 200;
    reply.drop("Content-Range");
    reply.begin = 0;
    reply.end = reply.file->size;
  });
  pull();
  expect_complete();
}

TEST_F(Faults, another_range_than_was_asked_for_is_not_written) {
  for (const char* wrong : {"bytes 5-3300005/3300000", "bytes 0-99/3300000", "bytes 1048576-3299999/9999999",
                            "bytes 1-2", "pages 1-2/3", ""}) {
    fs::remove_all(environment_.cache);
    server_.forget_requests();
    script_for("/blob/" + first_etag(), [&](const FakeRequest& request, FakeReply& reply) {
      if (request.count == 0) reply.cut_after = 1'200'000;
      if (request.count == 1) reply.set("Content-Range", wrong);
    });
    pull();
    expect_complete();
    EXPECT_EQ(gets(), 3u) << wrong;
    EXPECT_EQ(resolves(), 2u) << wrong;
  }
}

TEST_F(Faults, a_416_for_a_file_of_another_size_is_an_error) {
  script_for("/blob/" + first_etag(), [](const FakeRequest&, FakeReply& reply) {
    reply.become(416, "");
    reply.set("Content-Range", "bytes */777");
  });
  expect_words(fault_of([&] { pull(); }), {"its size there is 777 bytes, not 3300000"});
}

TEST_F(Faults, a_416_for_a_file_of_the_right_size_ends_with_an_error) {
  const std::string size = std::to_string(first_.size());
  script_for("/blob/" + first_etag(), [&](const FakeRequest&, FakeReply& reply) {
    reply.become(416, "");
    reply.set("Content-Range", "bytes */" + size);
  });
  expect_words(fault_of([&] { pull(); }), {"416"});
  EXPECT_EQ(gets(), 2u);
  EXPECT_FALSE(fs::exists(blob("model-00001-of-00002.safetensors")));
}

TEST_F(Faults, compressed_lists_are_understood) {
  // This is the listing of an empty repository in gzip, "[]".
  const std::string zipped(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x8b\x8e\x05\x00\x29\xbb\x4c\x0d\x02\x00\x00\x00", 22);
  script_for("/tree/", [&](const FakeRequest&, FakeReply& reply) {
    reply.become(200, zipped);
    reply.set("Content-Encoding", "gzip");
    reply.announce_length = false;
  });
  expect_words(fault_of([&] { plan(); }, ErrorKind::kBadFile), {"has no config.json"});
}

TEST_F(Faults, a_partial_file_that_is_whole_is_hashed_and_published_without_a_request) {
  fs::create_directories(cached().blobs());
  {
    Partial partial(real_files(), cached().blob(first_etag()), first_etag(), first_.size());
    partial.write(0, std::as_bytes(std::span(first_)));
    partial.mark({0, 1, 2, 3});
  }
  EXPECT_EQ(plan().model.there(), first_.size());
  pull();
  expect_complete();
  EXPECT_EQ(gets(), 0u);
}

TEST_F(Faults, only_what_is_not_marked_is_fetched_again) {
  fs::create_directories(cached().blobs());
  {
    Partial partial(real_files(), cached().blob(first_etag()), first_etag(), first_.size());
    partial.write(0, std::as_bytes(std::span(first_)));
    partial.mark({0, 2});
  }
  pull();
  expect_complete();
  EXPECT_EQ(server_.sent_of("/blob/" + first_etag()), first_.size() - 2 * kBlock);
}

TEST_F(Faults, a_partial_file_that_was_damaged_on_disk_is_fetched_anew) {
  fs::create_directories(cached().blobs());
  {
    Partial partial(real_files(), cached().blob(first_etag()), first_etag(), first_.size());
    partial.write(0, std::as_bytes(std::span(second_)));
    partial.mark({0, 1});
  }
  pull();
  expect_complete();
}

TEST_F(Faults, a_reply_without_bytes_stalls_and_the_hub_is_asked_for_a_better_address) {
  first_get([&](FakeReply& reply) {
    reply.silent_after = 0;
    reply.when_silent = [&] { clock_.advance(std::chrono::seconds(11)); };
  });
  pull();
  expect_complete();
  EXPECT_EQ(resolves(), 2u);
}

TEST_F(Faults, silence_ends_a_connection_and_the_next_goes_on) {
  first_get([&](FakeReply& reply) {
    reply.silent_after = 2'000'000;
    reply.when_silent = [&] { clock_.advance(std::chrono::seconds(11)); };
  });
  pull();
  expect_complete();
  EXPECT_LE(server_.sent_of("/blob/" + first_etag()), first_.size() + kBlock);
}

TEST_F(Faults, silence_without_end_is_an_error) {
  every_get([&](FakeReply& reply) {
    reply.silent_after = 0;
    reply.when_silent = [&] { clock_.advance(std::chrono::seconds(11)); };
  });
  expect_words(fault_of([&] { pull(); }), {"nothing came for 10 s"});
}

TEST_F(Faults, a_trickle_is_too_slow) {
  first_get([&](FakeReply& reply) {
    reply.drip_after = 100'000;
    reply.on_drip = [&] {
      clock_.advance(std::chrono::seconds(5));
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    };
  });
  pull();
  expect_complete();
  EXPECT_EQ(gets(), 2u);
}

TEST_F(Faults, an_expired_address_is_asked_for_anew) {
  first_get([](FakeReply& reply) { reply.become(403, "Request has expired"); });
  pull();
  expect_complete();
  EXPECT_EQ(resolves(), 2u);
}

TEST_F(Faults, an_address_that_expires_midway_costs_nothing_that_came) {
  script_for("/blob/" + first_etag(), [](const FakeRequest& request, FakeReply& reply) {
    if (request.count == 0) reply.cut_after = 1'500'000;
    if (request.count == 1) reply.become(403, "Request has expired");
  });
  pull();
  expect_complete();
  EXPECT_EQ(resolves(), 2u);
  EXPECT_LE(server_.sent_of("/blob/" + first_etag()), first_.size() + kBlock);
}

TEST_F(Faults, all_connections_share_one_new_address) {
  first_ = random_bytes(9, 60'000'000);
  server_.add(kModel, "model-00001-of-00002.safetensors", first_, true);
  // The first address is refused, to however many connections have it.
  std::mutex mutex;
  std::string expired;
  script_for("/blob/" + first_etag(), [&](const FakeRequest& request, FakeReply& reply) {
    const std::lock_guard lock(mutex);
    if (request.query.find("Signature=") == std::string::npos) return;
    if (expired.empty()) expired = request.query;
    if (request.query == expired) reply.become(403, "Request has expired");
  });
  pull(kModel, false, 4);
  expect_complete();
  EXPECT_LE(resolves(), 3u);
}

TEST_F(Faults, an_address_that_is_always_refused_is_an_error_with_the_servers_words) {
  every_get([](FakeReply& reply) { reply.become(403, "Auth failed: no such key"); });
  expect_words(fault_of([&] { pull(); }),
               {"403", "Auth failed: no such key", "model-00001-of-00002.safetensors"});
  EXPECT_EQ(gets(), 2u);
}

TEST_F(Faults, no_resolve_carries_a_range) {
  pull();
  for (const FakeRequest& request : server_.requests()) {
    if (request.path.find("/resolve/") == std::string::npos) continue;
    EXPECT_EQ(request.header("range"), "") << request.path;
  }
  EXPECT_GT(resolves(), 0u);
}

TEST_F(Faults, a_wrong_hash_is_fetched_once_more) {
  const std::string wrong = random_bytes(77, first_.size());
  test::FakeFile other{wrong, "", wrong.size(), true, ""};
  first_get([&](FakeReply& reply) { reply.file = &other; });
  pull();
  expect_complete();
  EXPECT_EQ(gets(), 2u);
}

TEST_F(Faults, a_hash_that_stays_wrong_is_an_error_and_leaves_nothing) {
  const std::string wrong = random_bytes(77, first_.size());
  test::FakeFile other{wrong, "", wrong.size(), true, ""};
  every_get([&](FakeReply& reply) { reply.file = &other; });
  expect_words(fault_of([&] { pull(); }), {"model-00001-of-00002.safetensors", "wrong hash", first_etag()});
  EXPECT_EQ(gets(), 2u);
  EXPECT_FALSE(fs::exists(blob("model-00001-of-00002.safetensors")));
  EXPECT_FALSE(fs::exists(blob("model-00001-of-00002.safetensors").string() + ".slipstream"));
}

TEST_F(Faults, a_body_of_another_length_is_an_error) {
  every_get([](FakeReply& reply) {
    reply.become(200, "short");
    reply.set("Content-Type", "application/octet-stream");
  });
  expect_words(fault_of([&] { pull(); }), {"the reply has 5 bytes", "not the 3300000"});
  EXPECT_FALSE(fs::exists(blob("model-00001-of-00002.safetensors")));
}

TEST_F(Faults, a_body_longer_than_announced_anywhere_is_an_error) {
  const std::string longer = first_ + "and more";
  every_get([&](FakeReply& reply) {
    reply.become(200, longer);
    reply.announce_length = false;
  });
  expect_words(fault_of([&] { pull(); }), {"the reply has too many bytes"});
}

TEST_F(Faults, a_login_page_in_place_of_a_file_is_refused) {
  every_get([](FakeReply& reply) {
    reply.become(200, "<html>please log in</html>");
    reply.set("Content-Type", "text/html");
  });
  expect_words(fault_of([&] { pull(); }), {"text/html"});
}

TEST_F(Faults, a_login_page_in_place_of_a_list_is_refused) {
  script_for("/api/", [](const FakeRequest&, FakeReply& reply) {
    reply.become(200, "<!DOCTYPE html><html>please log in</html>");
    reply.set("Content-Type", "text/html");
  });
  expect_words(fault_of([&] { plan(); }), {"web page", "login page"});
}

TEST_F(Faults, a_rate_limit_is_waited_for) {
  script_for("/revision/", [](const FakeRequest& request, FakeReply& reply) {
    if (request.count > 0) return;
    reply.become(429, "");
    reply.set("RateLimit", "\"api\";r=0;t=2");
    reply.set("RateLimit-Policy", "\"fixed window\";\"api\";q=500;w=300");
  });
  pull();
  expect_complete();
  EXPECT_EQ(clock_.waited_seconds(), 3);
  expect_words(listener_.notices, {"waiting 3 s"});
}

TEST_F(Faults, a_rate_limit_of_the_storage_is_waited_for_too) {
  first_get([](FakeReply& reply) {
    reply.become(429, "<html>" + std::string(52'000, 'x') + "</html>");
    reply.set("Retry-After", "7");
  });
  pull();
  expect_complete();
  EXPECT_EQ(clock_.waited_seconds(), 7);
}

TEST_F(Faults, a_rate_limit_that_sends_a_web_page_is_no_crash) {
  script_for("/api/", [](const FakeRequest&, FakeReply& reply) {
    reply.become(429, "<html>" + std::string(52'000, 'x') + "</html>");
    reply.set("Content-Type", "text/html");
  });
  expect_words(fault_of([&] { plan(); }), {"429"});
  EXPECT_EQ(clock_.waited_seconds(), 1 + 2 + 4 + 8 + 8);
}

TEST_F(Faults, a_server_that_fails_twice_is_asked_a_third_time) {
  for (const char* part : {"/revision/", "/resolve/", "/blob/"}) {
    fs::remove_all(environment_.cache);
    server_.forget_requests();
    const double before = clock_.waited_seconds();
    script_for(part, [](const FakeRequest& request, FakeReply& reply) {
      if (request.count < 2 && (request.path.find("00001") != std::string::npos ||
                                request.path.find("/resolve/") == std::string::npos)) {
        reply.become(503, "busy");
      }
    });
    pull();
    expect_complete();
    EXPECT_GE(clock_.waited_seconds() - before, 3) << part;
  }
}

TEST_F(Faults, a_redirect_to_another_host_gets_no_token) {
  environment_.token = "hf_secretsecret";
  pull();
  expect_complete();
  size_t to_hub = 0, to_storage = 0;
  for (const FakeRequest& request : server_.requests()) {
    if (request.storage) {
      EXPECT_EQ(request.header("authorization"), "");
      ++to_storage;
    } else {
      EXPECT_EQ(request.header("authorization"), "Bearer hf_secretsecret");
      ++to_hub;
    }
  }
  EXPECT_GT(to_hub, 0u);
  EXPECT_GT(to_storage, 0u);
}

TEST_F(Faults, a_relative_redirect_keeps_its_query) {
  pull();
  size_t with_query = 0;
  for (const FakeRequest& request : server_.requests()) {
    if (request.path.find("/resolve-cache/") != std::string::npos && request.query.find("etag=%22") == 0)
      ++with_query;
  }
  EXPECT_GT(with_query, 0u);
}

TEST_F(Faults, a_mirror_may_send_us_to_another_host_of_the_hub) {
  test::FakeHub mirror;
  mirror.set_script([&](const FakeRequest& request, FakeReply& reply) {
    reply.become(308, "");
    reply.set("Location", server_.url() + request.target);
  });
  environment_.endpoint = mirror.url();
  environment_.token = "hf_secretsecret";
  environment_.hub_origins = {net::parse_url(server_.url())->origin()};
  pull();
  expect_complete();
  for (const FakeRequest& request : server_.requests()) {
    EXPECT_EQ(request.header("authorization"), request.storage ? "" : "Bearer hf_secretsecret");
  }
  environment_.hub_origins = {};  // a host we do not know: followed, but without the token
  server_.forget_requests();
  plan();
  for (const FakeRequest& request : server_.requests()) EXPECT_EQ(request.header("authorization"), "");
}

TEST_F(Faults, redirects_end_after_ten) {
  script_for("/revision/", [](const FakeRequest& request, FakeReply& reply) {
    reply.become(307, "");
    reply.set("Location", request.path + "?again");
  });
  expect_words(fault_of([&] { plan(); }), {"redirects more than 10 times"});
  EXPECT_EQ(server_.requests().size(), 11u);
}

TEST_F(Faults, a_redirect_to_another_scheme_ends_here) {
  for (const char* location : {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x", "", "http://a b/"}) {
    script_for("/revision/", [&](const FakeRequest&, FakeReply& reply) {
      reply.become(307, "");
      reply.set("Location", location);
    });
    expect_words(fault_of([&] { plan(); }), {"no address of http or https"});
  }
}

TEST_F(Faults, a_full_disk_keeps_what_came) {
  class Full : public WrappedFiles {
   public:
    struct FullFile : WrappedFile {
      uint64_t& room;
      FullFile(std::unique_ptr<File> file, uint64_t& left) : WrappedFile(std::move(file)), room(left) {}
      void write(uint64_t offset, std::span<const std::byte> bytes) override {
        if (bytes.size() > room) fail(ErrorKind::kRuntime, "the disk is full");
        room -= bytes.size();
        WrappedFile::write(offset, bytes);
      }
    };
    uint64_t room = 5'000'000;
    std::unique_ptr<File> open(const fs::path& path) override {
      return std::make_unique<FullFile>(WrappedFiles::open(path), room);
    }
  } files;
  files_ = &files;
  expect_words(fault_of([&] { pull(kModel, false, 1); }), {"the disk is full"});
  server_.forget_requests();
  files_ = &real_files();
  EXPECT_GT(plan().model.there(), 2'000'000u);
  const uint64_t fetched = pull().fetched;
  EXPECT_LT(fetched, first_.size() + second_.size() + tokenizer_.size() - 2'000'000);
  expect_complete();
}

TEST_F(Faults, an_interruption_keeps_what_came) {
  listener_.each = [&](const Progress& progress) {
    clock_.advance(std::chrono::milliseconds(201));  // each turn reports
    if (progress.there > 2'500'000) cancel_.request();
  };
  expect_words(fault_of([&] { pull(kModel, false, 1); }), {"interrupted", "same command"});
  net::Cancel fresh;
  HubOptions again = options();
  again.cancel = &fresh;
  listener_.each = {};
  Hub hub(std::move(again));
  const Plan planned = hub.plan(parse_model_name(kModel), {DrafterChoice::kNone});
  EXPECT_GT(planned.there(), 2'000'000u);
  hub.pull(planned, {}, listener_);
  expect_complete();
}

TEST_F(Faults, compressed_files_are_still_understood) {
  // A mirror that compresses everything sends neither length nor ranges. This is "{}" in gzip.
  const std::string zipped(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00", 22);
  script_for("generation_config.json", [&](const FakeRequest& request, FakeReply& reply) {
    if (request.path.find("/resolve-cache/") == std::string::npos) return;
    reply.become(200, zipped);
    reply.set("Content-Encoding", "gzip");
    reply.announce_length = false;
  });
  pull();
  expect_complete();
}

TEST_F(Faults, a_connection_far_slower_than_the_others_is_replaced) {
  first_ = random_bytes(9, 80'000'000);
  server_.add(kModel, "model-00001-of-00002.safetensors", first_, true);
  environment_.silence = std::chrono::seconds(3000);
  std::atomic<int> others{0};
  std::atomic<bool> passed{false}, replaced{false};
  // Waits for what must come; gives up after a minute, so that a fault is a failure and not a hang.
  const auto wait_for = [](const auto& holds) {
    for (int nap = 0; nap < 3000 && !holds(); ++nap)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  script_for("/blob/" + first_etag(), [&](const FakeRequest& request, FakeReply& reply) {
    if (request.count == 0) {
      reply.silent_after = 100'000;
      reply.when_silent = [&] {
        wait_for([&] { return others >= 3; });
        if (!passed.exchange(true)) clock_.advance(std::chrono::seconds(6));
      };
    } else if (request.count < 4) {
      // The others hold their last bytes until the slow one was replaced: there must be somebody to compare with.
      reply.drip_after = reply.end - reply.begin - 10;
      reply.on_drip = [&, counted = std::make_shared<bool>(false)] {
        if (!std::exchange(*counted, true)) ++others;
        wait_for([&] { return replaced.load(); });
      };
    } else {
      replaced = true;
    }
  });
  pull(kModel, false, 4);
  expect_complete();
  EXPECT_TRUE(replaced);
}

}  // namespace
}  // namespace slip::hub
