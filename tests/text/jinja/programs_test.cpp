// Small programs: what jinja2 makes of them is written beside them in programs.json, and jinja2 itself
// confirms that where it is installed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "text/jinja/template.h"

namespace slip::text::jinja {
namespace {

using nlohmann::ordered_json;

const ordered_json& programs() {
  static const auto all = ordered_json::parse(read_text_file(SLIP_TEST_DATA "/text/jinja/programs.json"));
  return all;
}

TEST(Programs, are_rendered_as_jinja2_renders_them) {
  ASSERT_GT(programs().size(), 150u);
  for (const auto& program : programs()) {
    const std::string source = program.at("template");
    const std::string context = program.value("context", ordered_json::object()).dump();
    try {
      const Rendered rendered =
          render_json(source, "program", context, {.now = parse_moment("2026-11-19T12:34:56")});
      EXPECT_EQ(rendered.bytes, program.value("output", "an error: " + program.value("error", ""))) << source;
    } catch (const TemplateError& error) {
      EXPECT_EQ(error.type(), program.value("error", "no error")) << source << "\n" << error.what();
    }
  }
}

TEST(Programs, have_answers_that_jinja2_itself_gives) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("slip_referee_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream lines(folder / "lines");
  for (const auto& program : programs()) {
    lines << ordered_json{{"template", program.at("template")},
                          {"context", program.value("context", ordered_json::object())}}
                 .dump()
          << "\n";
  }
  lines.close();
  const std::string command = "python3 '" SLIP_TEST_DATA "/text/jinja/referee.py' < '" +
                              (folder / "lines").string() + "' > '" + (folder / "answers").string() +
                              "' 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream answers(folder / "answers");
  std::vector<std::string> given;
  for (std::string line; std::getline(answers, line);) given.push_back(line);
  std::filesystem::remove_all(folder);
  if (status != 0) GTEST_SKIP() << "python3 with jinja2 is not installed";
  ASSERT_EQ(given.size(), programs().size());
  for (size_t i = 0; i < given.size(); ++i) {
    const auto answer = ordered_json::parse(given[i]);
    const auto& program = programs()[i];
    EXPECT_EQ(answer.value("output", ""), program.value("output", "")) << program.at("template");
    EXPECT_EQ(answer.contains("error"), program.contains("error")) << program.at("template");
  }
}

std::string message_of(std::string_view source, std::string_view context = "{}") {
  try {
    render_json(source, "chat.jinja", context, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Programs, name_line_and_column_where_they_fail) {
  EXPECT_EQ(message_of("one\n{{ 'a' + none }}"),
            "chat.jinja: line 2, column 8: TypeError: can only concatenate str (not \"NoneType\") to str");
  EXPECT_EQ(message_of("{% if x %}\n\n  {{ y.z }}{% endif %}", R"({"x":1})"),
            "chat.jinja: line 3, column 7: UndefinedError: 'y' is undefined");
  EXPECT_EQ(message_of("a\n{% for x %}"),
            "chat.jinja: line 2, column 10: TemplateSyntaxError: expected token 'in', got 'end of statement "
            "block'");
  EXPECT_EQ(message_of("{{ raise_exception('no such role') }}"),
            "chat.jinja: line 1, column 19: TemplateError: no such role");
}

TEST(Programs, that_need_what_is_missing_say_what) {
  EXPECT_NE(message_of("{{ [1]|random }}").find("the filter 'random' is not supported"), std::string::npos);
  EXPECT_NE(message_of("{{ 9223372036854775807 + 1 }}").find("integers of more than 64 bits"),
            std::string::npos);
  EXPECT_NE(message_of("{{ '\\N{SNOWMAN}' }}").find("is not known here"), std::string::npos);
}

TEST(Programs, print_integers_of_any_length_as_they_came) {
  const Rendered rendered = render_json("{{ x }} {{ x|tojson }} {{ x == 1 }} {{ x > 5 }}", "t",
                                        R"({"x":123456789012345678901234567890})", {});
  EXPECT_EQ(rendered.bytes, "123456789012345678901234567890 123456789012345678901234567890 False True");
}

TEST(Programs, take_a_context_that_is_one_object_and_no_other) {
  EXPECT_EQ(message_of("x", "[1]"), "the context: must be one JSON object");
  EXPECT_EQ(message_of("x", R"(["x"])"), "the context: must be one JSON object");
  EXPECT_NE(message_of("x", R"({"a":)").find("the context: at byte"), std::string::npos);
  EXPECT_NE(message_of("x", R"({"a":)" + std::string(999, '[')).find("nested more than 256 deep"),
            std::string::npos);
}

}  // namespace
}  // namespace slip::text::jinja
