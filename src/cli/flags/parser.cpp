#include "cli/flags/parser.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "cli/terminal/closest.h"
#include "cli/terminal/output.h"

namespace slip::cli {
namespace {

/// "-n,--max-tokens,--n-predict" -> {"-n", "--max-tokens", "--n-predict"}
std::vector<std::string> split_names(const std::string& names) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    parts.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The name for messages: the first long one, since it explains itself.
std::string flag_name(const std::string& names) {
  const auto parts = split_names(names);
  const auto at = std::find_if(parts.begin(), parts.end(), [](const auto& n) { return n.starts_with("--"); });
  return at == parts.end() ? parts[0] : *at;
}

/// "-n, --max-tokens N": one short and one long name, the long ones in one column.
std::string left_column(const OptionText& option) {
  const auto parts = split_names(option.names);
  const bool has_short = parts[0].size() == 2 && parts[0][0] == '-';
  std::string left = has_short ? parts[0] : option.names.starts_with("--") ? "   " : "";
  if (has_short && parts.size() > 1) left += ",";
  if (!has_short || parts.size() > 1) left += (left.empty() ? "" : " ") + parts[has_short ? 1 : 0];
  if (!option.label.empty()) left += " " + option.label;
  return left;
}

}  // namespace

struct Parser::Impl {
  struct Line {
    std::string group, left, help;
  };
  CLI::App app;
  std::string usage, summary, footer;
  std::vector<Line> lines;
  std::vector<std::string> flags;  // every spelling, for did-you-mean
  std::vector<std::string>* words = nullptr;
  OptionText words_text;
  int words_required = 0, words_most = 0;
};

Parser::Parser(const Command& command, const std::string& usage)
    : impl_(std::make_unique<Impl>()), command_(command.name) {
  impl_->usage = usage;
  impl_->summary = std::string(command.summary);
  impl_->app.allow_extras();  // unknown flags and bare words come back in order; parse() sorts them out
  impl_->app.set_help_flag("-h,--help", "");
  impl_->flags = {"-h", "--help"};
}

Parser::~Parser() = default;

void Parser::footer(const std::string& text) {
  impl_->footer = text;
}

void Parser::flag(const std::string& names, bool& target, const std::string& help) {
  impl_->app.add_flag_callback(names, [&target] { target = true; });
  impl_->lines.push_back({group_, left_column({names, "", help}), help});
  for (std::string& name : split_names(names)) impl_->flags.push_back(std::move(name));
}

void Parser::add(const OptionText& option, std::function<void(const std::string&)> take) {
  impl_->app.add_option_function<std::string>(option.names, take)
      ->type_name(option.label)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  impl_->lines.push_back({group_, left_column(option), option.help});
  for (std::string& name : split_names(option.names)) impl_->flags.push_back(std::move(name));
}

void Parser::text(const OptionText& option, std::string& target) {
  add(option, [&target](const std::string& value) { target = value; });
}

void Parser::text(const OptionText& option, std::optional<std::string>& target) {
  add(option, [&target](const std::string& value) { target = value; });
}

void Parser::texts(const OptionText& option, std::vector<std::string>& target) {
  impl_->app.add_option(option.names, target)
      ->type_name(option.label)
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false);  // one value per flag, and "[a,b]" stays one value
  impl_->lines.push_back({group_, left_column(option), option.help});
  for (std::string& name : split_names(option.names)) impl_->flags.push_back(std::move(name));
}

void Parser::choice(const OptionText& option, std::vector<std::string> allowed, std::string& target) {
  add_choice(option, allowed, [allowed, &target](size_t index) { target = allowed[index]; });
}

void Parser::add_choice(const OptionText& option, std::vector<std::string> words,
                        std::function<void(size_t)> take) {
  add(option, [option, words = std::move(words), take = std::move(take)](const std::string& value) {
    const auto at = std::find(words.begin(), words.end(), value);
    if (at == words.end()) {
      fail_usage("{} must be one of {}, not '{}'{}", flag_name(option.names), fmt::join(words, ", "),
                 escaped(value), did_you_mean(value, words));
    }
    take(static_cast<size_t>(at - words.begin()));
  });
}

void Parser::words(const OptionText& option, std::vector<std::string>& target, int required, int most) {
  impl_->words = &target;
  impl_->words_text = option;
  impl_->words_required = required;
  impl_->words_most = most;
  impl_->lines.push_back({group_, option.label, option.help});
}

void Parser::add_integer(const OptionText& option, int64_t least, int64_t most,
                         std::function<void(int64_t)> take) {
  add(option,
      [=](const std::string& value) { take(parse_integer(flag_name(option.names), value, least, most)); });
}

void Parser::add_number(const OptionText& option, double least, double most,
                        std::function<void(double)> take) {
  add(option,
      [=](const std::string& value) { take(parse_number(flag_name(option.names), value, least, most)); });
}

bool Parser::parse(const Arguments& args) {
  Arguments reversed(args.rbegin(), args.rend());  // CLI11 takes them from the back
  try {
    impl_->app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    write_out(help());
    return false;
  } catch (const CLI::ParseError& error) {
    fail_usage("{}; see 'slipstream {} --help'", error.what(), command_);
  }
  std::vector<std::string> words;
  bool only_words = false;  // after "--"
  for (const std::string& extra : impl_->app.remaining()) {
    if (!only_words && extra == "--") {
      only_words = true;
    } else if (!only_words && extra.size() > 1 && extra[0] == '-') {
      fail_unknown(extra);
    } else {
      words.push_back(extra);
    }
  }
  const int count = static_cast<int>(words.size());
  if (count > impl_->words_most) {
    fail_usage("'{}' is one argument too many; see 'slipstream {} --help'",
               escaped(words[static_cast<size_t>(impl_->words_most)]), command_);
  }
  if (count < impl_->words_required) {
    fail_usage("{} is missing; usage: slipstream {} {}", impl_->words_text.label, command_, impl_->usage);
  }
  if (impl_->words != nullptr) *impl_->words = std::move(words);
  return true;
}

void Parser::fail_unknown(const std::string& extra) const {
  const std::string name = extra.substr(0, extra.find('='));
  std::string guess = did_you_mean(name, impl_->flags);
  if (guess.empty()) guess = fmt::format("; see 'slipstream {} --help'", command_);
  fail_usage("{} has no option '{}'{}", command_, escaped(name), guess);
}

std::string Parser::help() const {
  std::string text = fmt::format("{}.\n\nUsage: slipstream {} {}\n", impl_->summary, command_, impl_->usage);
  size_t width = 0;
  for (const Impl::Line& line : impl_->lines) width = std::max(width, line.left.size());
  std::string group;
  for (const Impl::Line& line : impl_->lines) {
    if (line.group != group) text += fmt::format("\n{}:\n", line.group);
    group = line.group;
    text += fmt::format("  {:<{}}  {}\n", line.left, width, line.help);
  }
  if (!impl_->footer.empty()) text += "\n" + impl_->footer + "\n";
  return text;
}

int64_t parse_integer(const std::string& what, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end || value < least || value > most ||
      error == std::errc::result_out_of_range) {
    fail_usage("{} must be a whole number from {} to {}, not '{}'", what, least, most, escaped(text));
  }
  return value;
}

std::vector<int> parse_ids(const std::string& text, int most) {
  constexpr const char* kBetween = " \t\r\n,[]";
  std::vector<int> ids;
  for (size_t begin = text.find_first_not_of(kBetween); begin != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    const std::string word = text.substr(begin, std::min<size_t>(end - begin, 40));
    ids.push_back(static_cast<int>(parse_integer("a token id", word, 0, most)));
    begin = text.find_first_not_of(kBetween, end);
  }
  return ids;
}

size_t parse_size(const std::string& what, const std::string& text) {
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"", 1},    {"B", 1},    {"K", 1e3},      {"KB", 1e3},     {"M", 1e6},      {"MB", 1e6},
      {"G", 1e9}, {"GB", 1e9}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
  };
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string unit(stop, end);
  for (const auto& [name, factor] : kUnits) {
    const double bytes = value * factor;
    if (error == std::errc{} && unit == name && bytes >= 1 && bytes < 0x1p50)
      return static_cast<size_t>(bytes);
  }
  fail_usage("{} must be a size such as 500MB or 2GB, not '{}'", what, escaped(text));
}

double parse_number(const std::string& what, const std::string& text, double least, double most) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool parsed = error == std::errc{} && stop == end && std::isfinite(value);
  if (!parsed || value < least || value > most) {
    fail_usage("{} must be a number from {} to {}, not '{}'", what, least, most, escaped(text));
  }
  return value;
}

}  // namespace slip::cli
