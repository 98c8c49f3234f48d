// The template command, and the ways on which a conversation reaches a template: in the order it was written.
#include <gtest/gtest.h>

#include "slipstream/slipstream.h"
#include "support/scripted_model.h"

namespace slip::cli {
namespace {

using nlohmann::json;
using test::Result;
using test::run;
using test::write_file;

class TemplateCommand : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::string model() {
    test::write_scripted_model(path("model"), test::thoughtful_script());
    write_file(path("model/chat_template.jinja"), kWritesAll);
    return path("model");
  }

  // Every message as JSON, then the tools; a control token that ends the prompt with a line break, so that the
  // scripted model answers.
  static constexpr const char* kWritesAll =
      "{{ messages|tojson }}{{ tools|tojson }}{{ '<turn|>\n<|turn>model\n' }}";

 private:
  test::TemporaryFolder folder_;
};

TEST_F(TemplateCommand, render_prints_what_the_template_makes_of_the_context) {
  write_file(path("t.jinja"), "{{ x }} {{ strftime_now('%Y') }}\n{{ y.z }}");
  const auto rendered = [&](const std::string& context) {
    return run({"template", "render", path("t.jinja"), "--now", "2026-11-19T12:34:56"}, context);
  };
  EXPECT_EQ(rendered(R"({"x": 2.0, "y": {"z": [1]}})").out, "2.0 2026\n[1]");
  const Result failed = rendered(R"({"x": 2})");
  EXPECT_EQ(failed.code, 1);
  EXPECT_TRUE(failed.err.starts_with("UndefinedError: ")) << failed.err;
  EXPECT_NE(failed.err.find("line 2, column "), std::string::npos) << failed.err;
}

TEST_F(TemplateCommand, check_tries_the_models_own_template_or_another) {
  const std::string folder = model();
  const Result own = run({"template", "check", folder, "--json"});
  EXPECT_EQ(own.code, 4) << "its calls do not read back";
  bool failed = false;
  for (const json& result : json::parse(own.out))
    failed |= result["verdict"] == "FAIL" && result["check"] == "tools";
  EXPECT_TRUE(failed);
  const Result other = run(
      {"template", "check", folder, "--chat-template", SLIP_TEST_DATA "/../models/tiny/chat_template.jinja"});
  EXPECT_EQ(other.code, 0) << other.out;
  EXPECT_NE(other.out.find("tokens again"), std::string::npos) << other.out;
}

TEST_F(TemplateCommand, check_looks_for_broken_prefixes_in_conversations_of_the_users) {
  const std::string folder = model();
  write_file(path("some.json"), R"([
    {"messages": [{"role":"user","content":"a"}, {"role":"assistant","content":"b"}, {"role":"user","content":"c"}]},
    {"messages": [{"role":"user","content":"a"}], "enable_thinking": true},
    {"messages": [{"role":"nobody","content":"a"}]}])");
  const auto check = [&](const std::string& file) {
    return run({"template", "check", folder, "--conversations", path(file), "--chat-template",
                SLIP_TEST_DATA "/../models/tiny/chat_template.jinja"});
  };
  const Result result = check("some.json");
  EXPECT_EQ(result.code, 4);
  EXPECT_NE(result.out.find("conversation 0, thinking off: after turn 1 the next prompt differs"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("conversation 1, thinking on: each prompt begins"), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("conversation 2, thinking off: messages[0]: there is no role \"nobody\""),
            std::string::npos)
      << result.out;
  write_file(path("wrong.json"), "{}");
  EXPECT_EQ(check("wrong.json").code, 2);
}

constexpr const char* kMessages = R"([{"zeal":2.0,"role":"user","content":"a"}])";

TEST_F(TemplateCommand, a_template_sees_lines_of_prompts_and_the_librarys_json_as_they_are_written) {
  const std::string folder = model();
  // Only where the first key is "zeal" and its value 2.0 does the prompt grow.
  write_file(
      folder + "/chat_template.jinja",
      "{% if (messages|tojson)[:13] == '[{\"zeal\": 2.0' %}{{ 'aaaaaaaaaa' }}{% endif %}{% if tools and "
      "(tools|tojson)[:6] == '[{\"z\":' %}{{ 'bbbbb' }}{% endif %}{{ '<|turn>\n' }}");
  const std::string tools = R"([{"z":1,"type":"function","function":{"name":"f"}}])";
  write_file(folder + "/prompts.jsonl",
             std::string(R"({"messages":)") + kMessages + R"(,"tools":)" + tools + "}\n");
  const Result result =
      run({"generate", "-m", folder, "--prompts", folder + "/prompts.jsonl", "-n", "1", "-q"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["prompt_tokens"], 17) << result.out;

  Model loaded = Model::open(folder).load();
  Stream stream = loaded.chat_json(kMessages, {.max_tokens = 1, .tools = tools});
  while (stream.next()) {
  }
  EXPECT_EQ(stream.reply().statistics.prompt_tokens, 17);
  EXPECT_THROW(loaded.chat_json("[]"), Error);
  EXPECT_THROW(loaded.chat_json("[{"), Error);
}

}  // namespace
}  // namespace slip::cli
