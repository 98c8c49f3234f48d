// Pictures in requests: every API's spelling shows them to the model in the box, and what is wrong is named.
#include "media/fit.h"
#include "server/api/reply_source.h"
#include "server/api_fixture.h"
#include "support/program.h"

namespace slip::server::api {
namespace {

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kResponses = "/v1/responses";
constexpr const char* kMessages = "/v1/messages";
constexpr const char* kOllama = "/api/chat";

std::string in_tree(const std::string& path) {
  return std::string(SLIP_TEST_DATA) + "/../" + path;
}

std::string base64_of(const std::string& bytes) {
  constexpr const char* kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? kAlphabet[bits >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

std::string shapes() {
  static const std::string base64 = base64_of(test::read_file(in_tree("examples/shapes.png")));
  return base64;
}
std::string data_url(const std::string& base64 = shapes()) {
  return "data:image/png;base64," + base64;
}

/// The model in the box, opened once for all tests.
class Images : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const media::WorkerCommand worker{.program = SLIP_PROGRAM, .arguments = {"--media-worker"}};
    model_ = session::Model::open(in_tree("models/tiny"), {.vision = {.decoder = {.worker = worker}}});
    session::LoadOptions load{.draft = {.kind = session::Drafting::kSuffix},
                              .engine = {.context = 2048, .sequences = 4},
                              .picture_tokens = 1120};
    load.backend = {.device = session::DeviceKind::kCpu, .threads = 1};
    model_->load(load);
    replies_ = std::make_unique<ModelReplies>(*model_);
  }
  static void TearDownTestSuite() {
    replies_ = nullptr;
    model_ = nullptr;
  }

  void SetUp() override { open({}); }
  void TearDown() override { service_->stop(); }
  void open(const ImageRules& rules) {
    if (service_) service_->stop();
    service_ = std::make_unique<Service>(ServiceOptions{.images = rules,
                                                        .log =
                                                            [this](std::string_view line) {
                                                              const std::lock_guard lock(mutex_);
                                                              log_ += std::string(line) + "\n";
                                                            }},
                                         timers_);
    service_->open(*model_, *replies_);
  }

  json ask(const std::string& path, const json& body, int status = 200, const std::string& key = "") {
    auto exchange = std::make_shared<FakeExchange>();
    http::Request request;
    request.method = body.is_null() ? "GET" : "POST";
    request.path = path;
    request.body = body.is_null() ? "" : body.dump();
    request.id = "req-1";
    request.key = key;
    service_->handle(std::move(request), exchange);
    exchange->wait();
    EXPECT_EQ(exchange->status(), status) << exchange->text().substr(0, 300);
    return exchange->body();
  }
  static json chat_body(const json& content, const json& more = json::object()) {
    json body = {
        {"messages", {{{"role", "user"}, {"content", content}}}}, {"temperature", 0}, {"max_tokens", 60}};
    body.update(more);
    return body;
  }
  static json image(const json& url) { return {{"type", "image_url"}, {"image_url", url}}; }
  static json words(const std::string& text = "What do you see?") {
    return {{"type", "text"}, {"text", text}};
  }
  json ask_chat(const json& content, int status = 200) { return ask(kChat, chat_body(content), status); }
  static std::string text_of(const json& answer) { return answer["choices"][0]["message"]["content"]; }
  int prompt_tokens(const json& part) {
    return ask_chat(json::array({part, words()}))["usage"]["prompt_tokens"];
  }

  void expect_refused(const json& part, const std::string& code, const std::string& words_of_it,
                      int status = 400) {
    SCOPED_TRACE(code);
    const json error = ask_chat(json::array({words(), part}), status)["error"];
    EXPECT_EQ(error["code"], code) << error.dump();
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_TRUE(error["param"].get<std::string>().starts_with("messages[0].content[1]")) << error.dump();
    EXPECT_NE(error["message"].get<std::string>().find(words_of_it), std::string::npos) << error.dump();
  }

  inline static std::unique_ptr<session::Model> model_;
  inline static std::unique_ptr<ModelReplies> replies_;
  SystemTimers timers_;
  std::unique_ptr<Service> service_;
  std::mutex mutex_;
  std::string log_;
};

constexpr const char* kSeen = "red circle in the top left, a yellow star in the middle and a blue square";

TEST_F(Images, are_seen_in_every_spelling_of_openais_chat) {
  const json spellings[] = {
      image({{"url", data_url()}}),
      image({{"url", data_url()}, {"detail", "auto"}}),
      image(data_url()),
      {{"image_url", {{"url", data_url()}}}},
      {{"type", "input_image"}, {"image_url", data_url()}, {"detail", "low"}},
      {{"type", "image"}, {"source", {{"type", "base64"}, {"media_type", "image/png"}, {"data", shapes()}}}},
      {{"type", "image"}, {"image", data_url()}},
  };
  for (const json& part : spellings) {
    SCOPED_TRACE(part.dump().substr(0, 80));
    EXPECT_NE(text_of(ask_chat(json::array({part, words()}))).find(kSeen), std::string::npos);
  }
}

TEST_F(Images, are_seen_by_the_other_apis) {
  const json response = ask(kResponses, {{"input",
                                          {{{"role", "user"},
                                            {"content",
                                             {{{"type", "input_image"}, {"image_url", data_url()}},
                                              {{"type", "input_text"}, {"text", "What do you see?"}}}}}}},
                                         {"temperature", 0}});
  EXPECT_NE(response.dump().find(kSeen), std::string::npos) << response.dump().substr(0, 500);

  const json block = {{"type", "image"},
                      {"source", {{"type", "base64"}, {"media_type", "image/jpeg"}, {"data", shapes()}}}};
  json message = {{"model", "tiny"},
                  {"max_tokens", 60},
                  {"temperature", 0},
                  {"messages", {{{"role", "user"}, {"content", {block, words()}}}}}};
  EXPECT_NE(ask(kMessages, message).dump().find(kSeen), std::string::npos);
  const int counted = ask("/v1/messages/count_tokens", message)["input_tokens"];
  EXPECT_EQ(counted, ask(kMessages, message)["usage"]["input_tokens"]);

  const json ollama = ask(
      kOllama, {{"model", "tiny"},
                {"stream", false},
                {"options", {{"temperature", 0}}},
                {"messages", {{{"role", "user"}, {"content", "What do you see?"}, {"images", {shapes()}}}}}});
  EXPECT_NE(ollama.dump().find(kSeen), std::string::npos) << ollama.dump().substr(0, 500);
}

TEST_F(Images, of_tools_are_shown_behind_their_result) {
  const json call = {
      {"id", "c1"}, {"type", "function"}, {"function", {{"name", "look"}, {"arguments", "{}"}}}};
  const auto chat_with = [&](const json& result) {
    return ask(kChat, {{"messages",
                        {{{"role", "user"}, {"content", "Look."}},
                         {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                         {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", result}}}},
                       {"max_tokens", 4},
                       {"temperature", 0}})["usage"]["prompt_tokens"]
        .get<int>();
  };
  // Its 64 rows and the two tokens around them.
  EXPECT_EQ(chat_with(json::array({words("done"), image(data_url())})),
            chat_with(json::array({words("done")})) + 66);

  const json tool_use = {{"type", "tool_use"}, {"id", "t1"}, {"name", "look"}, {"input", json::object()}};
  const json block = {{"type", "image"},
                      {"source", {{"type", "base64"}, {"media_type", "image/png"}, {"data", shapes()}}}};
  const auto message_with = [&](const json& result) {
    return ask(kMessages, {{"model", "tiny"},
                           {"max_tokens", 4},
                           {"messages",
                            {{{"role", "user"}, {"content", "Look."}},
                             {{"role", "assistant"}, {"content", {tool_use}}},
                             {{"role", "user"},
                              {"content",
                               {{{"type", "tool_result"},
                                 {"tool_use_id", "t1"},
                                 {"content", result}}}}}}}})["usage"]["input_tokens"]
        .get<int>();
  };
  EXPECT_EQ(message_with(json::array({words("done"), block})),
            message_with(json::array({words("done")})) + 66);

  const auto output_with = [&](const json& output) {
    return ask(kResponses,
               {{"max_output_tokens", 4},
                {"input",
                 {{{"role", "user"}, {"content", "Look."}},
                  {{"type", "function_call"}, {"call_id", "c1"}, {"name", "look"}, {"arguments", "{}"}},
                  {{"type", "function_call_output"},
                   {"call_id", "c1"},
                   {"output", output}}}}})["usage"]["input_tokens"]
        .get<int>();
  };
  const json seen = {{"type", "input_image"}, {"image_url", data_url()}, {"detail", "high"}};
  const int plain = output_with(json::array({{{"type", "input_text"}, {"text", "done"}}}));
  EXPECT_EQ(output_with(json::array({{{"type", "input_text"}, {"text", "done"}}, seen})), plain + 1089 + 2);
}

TEST_F(Images, detail_says_how_many_tokens_they_take) {
  const int low = prompt_tokens(image({{"url", data_url()}, {"detail", "low"}}));
  EXPECT_EQ(prompt_tokens(image({{"url", data_url()}})), low) << "the model in the box was published with 70";
  EXPECT_EQ(prompt_tokens(image({{"url", data_url()}, {"detail", "high"}})), low - 64 + 1089);
  EXPECT_EQ(prompt_tokens(image({{"url", data_url()}, {"max_soft_tokens", 140}})), low - 64 + 121);
  const json asked = ask(kChat, chat_body(json::array({image(data_url()), words()}),
                                          {{"mm_processor_kwargs", {{"max_soft_tokens", 280}}}}));
  EXPECT_EQ(asked["usage"]["prompt_tokens"], low - 64 + 256);
  open({.soft_tokens = 140, .most_soft_tokens = 280});
  EXPECT_EQ(prompt_tokens(image(data_url())), low - 64 + 121);
  EXPECT_EQ(prompt_tokens(image({{"url", data_url()}, {"detail", "high"}})), low - 64 + 256);
  expect_refused(image({{"url", data_url()}, {"max_soft_tokens", 560}}), "invalid_value",
                 "at most 280 tokens");
  const json counted = ask("/tokenize", chat_body(json::array({image(data_url()), words()})));
  EXPECT_EQ(counted["count"], low - 64 + 121);
}

TEST_F(Images, that_are_wrong_are_named_with_openais_codes) {
  const std::string file = test::read_file(in_tree("examples/shapes.png"));
  const auto url_of = [](const std::string& bytes) { return image(data_url(base64_of(bytes))); };
  expect_refused(image("data:image/png;base64,%%%"), "invalid_base64_image", "base64");
  expect_refused(url_of(""), "empty_image_file", "is empty");
  expect_refused(url_of("hello, I am a text of some length"), "invalid_image_format", "no picture we know");
  expect_refused(url_of("%PDF-1.7 and so on, more of it"), "unsupported_image_media_type", "PDF");
  expect_refused(url_of(file.substr(0, file.size() / 2)), "image_parse_error", "ends before");
  expect_refused(image("https://example.org/cat.png"), "invalid_image_url", "data: URL");
  expect_refused(image("file:///etc/passwd"), "invalid_image_url", "data: URL");
  expect_refused(image("cat.png"), "invalid_image_url", "no URL");
  expect_refused(image({{"detail", "low"}}), "invalid_value", "image_url.url: is missing");
  expect_refused(image({{"url", data_url()}, {"detail", "medium"}}), "invalid_value", "low, auto or high");
  expect_refused(image({{"url", data_url()}, {"max_soft_tokens", 100}}), "invalid_value", "70, 140");
  expect_refused({{"type", "image_url"}}, "invalid_value", "image_url: is missing");
  expect_refused({{"type", "input_image"}, {"file_id", "f1"}}, "unsupported_value", "keeps no files");
  expect_refused({{"type", "image"}, {"source", {{"type", "file"}, {"file_id", "f"}}}}, "unsupported_value",
                 "keeps no files");
  expect_refused({{"type", "image"}, {"source", {{"type", "base64"}, {"data", "!!"}}}},
                 "invalid_base64_image", "base64");
  expect_refused({{"type", "input_audio"}, {"input_audio", {{"data", ""}}}}, "unsupported_value", "hear");
  // Nothing of what was sent is told back.
  const std::string told = ask_chat(json::array({image("file:///etc/secret-name")}), 400).dump();
  EXPECT_EQ(told.find("secret-name"), std::string::npos) << told;
}

TEST_F(Images, in_other_roles_are_refused) {
  for (const char* role : {"system", "assistant"}) {
    const json error = ask(kChat,
                           {{"messages",
                             {{{"role", "user"}, {"content", "Hi"}},
                              {{"role", role}, {"content", {image(data_url())}}},
                              {{"role", "user"}, {"content", "Hi"}}}}},
                           400)["error"];
    EXPECT_EQ(error["param"], "messages[1].content[0]") << role;
  }
}

TEST_F(Images, too_many_or_too_large_are_refused_before_they_are_decoded) {
  json many = json::array();
  for (int i = 0; i < 33; ++i) many.push_back(image(data_url()));
  EXPECT_NE(ask_chat(many, 400).dump().find("at most 32 pictures"), std::string::npos);
  // Two of 1089 positions do not fit a context of 2048; the second one is cut off, and nobody looks.
  const std::string cut = test::read_file(in_tree("examples/shapes.png")).substr(0, 200);
  const json error = ask_chat(json::array({image({{"url", data_url()}, {"detail", "high"}}),
                                           image({{"url", data_url(base64_of(cut))}, {"detail", "high"}})}),
                              400)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded") << error.dump();
  open({.bytes = 1500});
  ask_chat(json::array({image(data_url()), image(data_url())}), 413);
}

TEST_F(Images, below_the_operators_folder_may_be_named_and_no_others) {
  open({.sources = {.folder = in_tree("examples")}});
  EXPECT_NE(text_of(ask_chat(json::array({image("file://shapes.png"), words()}))).find(kSeen),
            std::string::npos);
  for (const char* url : {"file://../README.md", "file:///etc/passwd", "file://none.png"})
    expect_refused(image(url), "invalid_image_url", "may not be read, or is not there");
}

TEST_F(Images, that_come_again_are_known_and_nobody_shares_them_across_keys) {
  const json body = chat_body(json::array({image(data_url()), words()}));
  const std::string first = text_of(ask(kChat, body, 200, "one"));
  EXPECT_EQ(text_of(ask(kChat, body, 200, "one")), first);
  EXPECT_EQ(text_of(ask(kChat, body, 200, "two")), first);
  const std::lock_guard lock(mutex_);
  size_t known = 0;
  for (size_t at = log_.find(", known"); at != std::string::npos; at = log_.find(", known", at + 1)) ++known;
  EXPECT_EQ(known, 1u) << log_;
  EXPECT_NE(log_.find("messages[0].content[0]: 384 x 384, seen as 384 x 384 in 64 tokens"), std::string::npos)
      << log_;
}

TEST_F(Images, are_announced_and_may_be_switched_off) {
  const json properties = ask("/props", nullptr);
  EXPECT_EQ(properties["accepted_inputs"], json({"text", "image"}));
  EXPECT_EQ(properties["image_budgets"], json({70, 140, 280, 560, 1120}));
  EXPECT_EQ(properties["modalities"]["vision"], true);
  open({.on = false});
  EXPECT_EQ(ask("/props", nullptr)["accepted_inputs"], json({"text"}));
  expect_refused(image(data_url()), "unsupported_value", "cannot see");
}

}  // namespace
}  // namespace slip::server::api
