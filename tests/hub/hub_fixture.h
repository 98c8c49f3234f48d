// A cache of its own, a fake hub, a clock that moves only when told, and a listener that remembers: what the
// tests of pulls start from. The model is small but laid out like google's: two shards with an index, a
// tokenizer as a large file, small files beside them, and an assistant of its own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/noise.h"
#include "checkpoint/files.h"
#include "hub/fake_hub.h"
#include "hub/hub.h"
#include "hub/partial.h"

namespace slip::hub {

inline std::string random_bytes(uint64_t seed, size_t count) {
  std::string bytes(count, '\0');
  const uint64_t key = noise_key(seed, 1);
  for (size_t i = 0; i < count; i += 8) {
    const uint64_t word = keyed_bits(key, i);
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, count - i));
  }
  return bytes;
}

inline std::string file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void expect_words(const std::string& text, std::initializer_list<std::string> words) {
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is not in: " << text;
  }
}

/// Stands still except where a test or a server moves it, or where a wait jumps.
class ManualClock : public net::Clock {
 public:
  net::Time now() override { return net::Time(net::Duration(ticks_.load())); }
  bool jump(net::Time until) override {
    waited_ += until - now();
    ticks_ = until.time_since_epoch().count();
    return true;
  }
  void advance(net::Duration by) { ticks_ += by.count(); }
  double waited_seconds() const { return std::chrono::duration<double>(waited_).count(); }

 private:
  std::atomic<net::Duration::rep> ticks_{net::Duration(std::chrono::hours(1)).count()};
  net::Duration waited_{};
};

class Recorder : public Listener {
 public:
  void on_progress(const Progress& progress) override {
    there = progress.there;
    total = progress.total;
    fetched = progress.fetched;
    if (each) each(progress);
  }
  void on_file_done(const FileProgress& file) override { done.push_back(file.path); }
  void on_notice(const std::string& text) override { notices += text + "\n"; }

  std::function<void(const Progress&)> each;
  uint64_t there = 0, total = 0, fetched = 0;
  std::vector<std::string> done;
  std::string notices;
};

class HubTest : public testing::Test {
 protected:
  static constexpr const char* kModel = "google/gemma-4-test-it";
  static constexpr const char* kDrafter = "google/gemma-4-test-it-assistant";

  explicit HubTest(test::FakeHub::Options options = {}) : server_(options) {
    first_ = random_bytes(1, 3'300'000);
    second_ = random_bytes(2, 2'100'000);
    tokenizer_ = random_bytes(3, 1'200'000);
    server_.add(kModel, "config.json", R"({"model_type":"gemma4","dtype":"bfloat16","vision_config":{}})");
    server_.add(kModel, "generation_config.json", "{}");
    server_.add(kModel, "tokenizer_config.json", R"({"x":1})");
    server_.add(kModel, "tokenizer.json", tokenizer_, true);
    server_.add(kModel, "chat_template.jinja", "{{ messages }}");
    server_.add(kModel, "processor_config.json", R"({"p":1})");
    server_.add(
        kModel, "model.safetensors.index.json",
        R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
    server_.add(kModel, "model-00001-of-00002.safetensors", first_, true);
    server_.add(kModel, "model-00002-of-00002.safetensors", second_, true);
    server_.add(kModel, "README.md", "# for people");
    server_.add(kModel, ".gitattributes", "*.safetensors filter=lfs");
    server_.add(kModel, "original/consolidated.pth", "never", true);
    server_.add(kDrafter, "config.json", R"({"model_type":"gemma4_assistant"})");
    server_.add(kDrafter, "model.safetensors", random_bytes(4, 900'000), true);
    server_.add(kDrafter, "README.md", "# for people");
    environment_.cache = folder_ / "cache";
    environment_.endpoint = server_.url();
    environment_.hub_origins = {};
  }

  HubOptions options() {
    HubOptions options;
    options.environment = environment_;
    options.files = files_;
    options.client.clock = &clock_;
    options.client.proxy = "";
    options.cancel = &cancel_;
    options.notice = [this](const std::string& text) { listener_.notices += text + "\n"; };
    return options;
  }
  Plan plan(const std::string& name = kModel, bool with_drafter = false) {
    return Hub(options()).plan(parse_model_name(name), {drafter_if(with_drafter)});
  }
  Pulled pull(const std::string& name = kModel, bool with_drafter = false, int connections = 8) {
    Hub hub(options());
    const Plan planned = hub.plan(parse_model_name(name), {drafter_if(with_drafter)});
    return hub.pull(planned, {connections}, listener_);
  }
  static DrafterChoice drafter_if(bool wanted) {
    return wanted ? DrafterChoice::kAuto : DrafterChoice::kNone;
  }
  /// The sentence of the Error that the work throws.
  template <typename F>
  std::string fault_of(F&& work, ErrorKind kind = ErrorKind::kRuntime) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }
  CachedRepository cached(const std::string& name = kModel) { return {environment_.cache, name}; }
  std::string commit(const std::string& name = kModel) { return server_.repository(name).commit; }
  fs::path snapshot(const std::string& name = kModel) { return cached(name).snapshot(commit(name)); }
  fs::path blob(const std::string& path, const std::string& name = kModel) {
    return cached(name).blob(server_.repository(name).files.at(path).etag);
  }

  /// Every file of the model as the server has it, each a link to its blob, nothing left over.
  void expect_complete(const std::string& name = kModel) {
    size_t blobs = 0;
    for (const auto& [path, file] : server_.repository(name).files) {
      if (path == "README.md" || path == ".gitattributes" || path.starts_with("original/")) continue;
      const fs::path link = snapshot(name) / path;
      EXPECT_TRUE(fs::is_symlink(link)) << link;
      EXPECT_EQ(fs::read_symlink(link), "../../blobs/" + file.etag);
      EXPECT_TRUE(file_text(link) == file.content) << path << " differs";
      ++blobs;
    }
    EXPECT_EQ(file_text(cached(name).reference("main")), commit(name));
    size_t found = 0;
    for (const auto& entry : fs::directory_iterator(cached(name).blobs())) {
      EXPECT_FALSE(entry.path().string().ends_with("slipstream")) << entry.path();
      EXPECT_FALSE(entry.path().string().ends_with("map")) << entry.path();
      ++found;
    }
    EXPECT_EQ(found, blobs);
  }
  /// Replies to requests whose path has this part are changed.
  void script_for(const std::string& part, test::FakeHub::Script script) {
    server_.set_script(
        [part, script = std::move(script)](const test::FakeRequest& request, test::FakeReply& reply) {
          if (request.path.find(part) != std::string::npos) script(request, reply);
        });
  }
  std::string first_etag() {
    return server_.repository(kModel).files.at("model-00001-of-00002.safetensors").etag;
  }

  test::TempFolder folder_;
  ManualClock clock_;
  net::Cancel cancel_;
  Recorder listener_;
  Environment environment_;
  Files* files_ = &real_files();
  std::string first_, second_, tokenizer_;
  test::FakeHub server_;  // last: its threads use the clock and the scripts' captures
};

}  // namespace slip::hub
