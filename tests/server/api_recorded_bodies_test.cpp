// Bodies that the agents really sent (Claude Code 2.1.328, with --bare too, Codex 0.169.0, opencode 1.18.33), their words
// replaced: the first request and, after a round with a tool, the second.
#include <algorithm>

#include "server/api_fixture.h"
#include "support/program.h"

namespace slip::server::api {
namespace {

struct Body {
  const char* name;
  const char* route;
};
constexpr Body kBodies[] = {
    {"claude_first", "/v1/messages"},           {"claude_second", "/v1/messages"},
    {"claude_bare_first", "/v1/messages"},      {"claude_bare_second", "/v1/messages"},
    {"codex_first", "/v1/responses"},           {"codex_second", "/v1/responses"},
    {"opencode_title", "/v1/chat/completions"}, {"opencode_first", "/v1/chat/completions"},
    {"opencode_second", "/v1/chat/completions"}};

json body_named(const std::string& name) {
  return json::parse(test::read_file(std::string(SLIP_TEST_DATA) + "/server/bodies/" + name + ".json"));
}

/// The prompt it becomes.
std::vector<int> prompt_of(Server& server, const char* route, json body) {
  body["model"] = "";
  const auto got = server.ask(route, body);
  EXPECT_EQ(got->status(), 200) << got->text().substr(0, 400);
  return server.replies.last_prompt;
}

TEST(RecordedBodies, users_1_every_one_is_answered_as_a_stream_and_whole) {
  Server server({}, true, 400'000);
  server.says("done");
  for (const Body& recorded : kBodies) {
    SCOPED_TRACE(recorded.name);
    json body = body_named(recorded.name);
    body["model"] = "";
    for (const bool stream : {true, false}) {
      body["stream"] = stream;
      if (!stream) body.erase("stream_options");
      const auto got = server.ask(recorded.route, body);
      ASSERT_EQ(got->status(), 200) << got->text().substr(0, 400);
      EXPECT_EQ(got->streams(), stream);
      EXPECT_TRUE(stream || got->text().find("done") != std::string::npos) << got->text().substr(0, 400);
      EXPECT_EQ(got->text().find("\"error\":{"), std::string::npos) << got->text().substr(0, 400);
    }
  }
}

TEST(RecordedBodies, users_4_a_second_round_begins_with_the_prompt_of_the_first) {
  Server server({}, true, 400'000);
  server.says("done");
  const std::string opening = "<|turn>model\n";
  for (const char* agent : {"claude", "claude_bare", "codex", "opencode"}) {
    SCOPED_TRACE(agent);
    const char* route = std::find_if(std::begin(kBodies), std::end(kBodies), [&](const Body& body) {
                          return std::string(body.name) == std::string(agent) + "_first";
                        })->route;
    std::vector<int> first = prompt_of(server, route, body_named(std::string(agent) + "_first"));
    const std::vector<int> second = prompt_of(server, route, body_named(std::string(agent) + "_second"));
    const std::vector<int> marker = scripted_model().tokenizer().encode(opening);
    ASSERT_TRUE(std::equal(marker.rbegin(), marker.rend(), first.rbegin()));
    first.resize(first.size() - marker.size());
    ASSERT_LT(first.size(), second.size());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), second.begin()));
    const std::string rest = scripted_model().tokenizer().decode(
        std::vector<int>(second.begin() + static_cast<ptrdiff_t>(first.size()), second.end()),
        {.skip_specials = false});
    EXPECT_NE(rest.find("i copy it"), std::string::npos) << "the thought came back: " << rest;
    EXPECT_NE(rest.find("cp note.txt copy.txt"), std::string::npos) << rest;
  }
}

}  // namespace
}  // namespace slip::server::api
