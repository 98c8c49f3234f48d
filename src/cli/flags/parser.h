// Parser: the options of one command. A thin layer over CLI11 that keeps its (large) header in one file and
// adds what people meet first: numbers checked against a range with the flag's name in the message, a guess
// for a mistyped flag, and a help text that fits a screen.
//
// Targets are bound by reference and must outlive parse(). Plain targets keep their value when the option is
// absent; std::optional targets stay empty.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/command.h"

namespace slip::cli {

/// What an option is called and says: names as CLI11 writes them ("-n,--max-tokens,--n-predict"; help shows
/// the first two at most, one short and one long), the label of its value ("N"), and one line of help.
struct OptionText {
  std::string names;
  std::string label;
  std::string help;
};

class Parser {
 public:
  /// `usage` is what follows the command's name: "-m MODEL [TEXT...]".
  Parser(const Command& command, const std::string& usage);
  ~Parser();

  /// Options added from here on are listed under this title.
  void group(std::string title) { group_ = std::move(title); }
  /// Lines below the options: examples, hints.
  void footer(const std::string& text);

  void flag(const std::string& names, bool& target, const std::string& help);
  void text(const OptionText& option, std::string& target);
  void text(const OptionText& option, std::optional<std::string>& target);
  /// May be given several times.
  void texts(const OptionText& option, std::vector<std::string>& target);
  void choice(const OptionText& option, std::vector<std::string> allowed, std::string& target);
  /// One of a few words, each with what it means.
  template <typename E>
  void choice(const OptionText& option, std::vector<std::pair<std::string, E>> allowed, E& target) {
    std::vector<std::string> words;
    for (const auto& [word, meaning] : allowed) words.push_back(word);
    add_choice(option, std::move(words),
               [allowed = std::move(allowed), &target](size_t index) { target = allowed[index].second; });
  }
  /// Text that `read` makes something of; it throws Error(kUsage) for what it cannot.
  void parsed(const OptionText& option, std::function<void(const std::string&)> read) {
    add(option, std::move(read));
  }
  /// What stands without a flag (names are not used); `required` words at least, `most` at most.
  void words(const OptionText& option, std::vector<std::string>& target, int required, int most);

  template <typename T>
  void integer(const OptionText& option, int64_t least, int64_t most, T& target) {
    add_integer(option, least, most, [&target](int64_t value) { assign(target, value); });
  }
  template <typename T>
  void number(const OptionText& option, double least, double most, T& target) {
    add_number(option, least, most, [&target](double value) { assign(target, value); });
  }

  /// False when help was asked for and has been printed. Throws Error(kUsage) when the arguments are wrong.
  bool parse(const Arguments& args);
  std::string help() const;

 private:
  struct Impl;

  template <typename T, typename V>
  static void assign(T& target, V value) {
    target = static_cast<T>(value);
  }
  template <typename T, typename V>
  static void assign(std::optional<T>& target, V value) {
    target = static_cast<T>(value);
  }
  void add(const OptionText& option, std::function<void(const std::string&)> take);
  void add_choice(const OptionText& option, std::vector<std::string> words, std::function<void(size_t)> take);
  void add_integer(const OptionText& option, int64_t least, int64_t most, std::function<void(int64_t)> take);
  void add_number(const OptionText& option, double least, double most, std::function<void(double)> take);
  [[noreturn]] void fail_unknown(const std::string& extra) const;

  std::unique_ptr<Impl> impl_;
  std::string command_;
  std::string group_ = "Options";
};

/// A whole number in [least, most]; the error names `what` ("-n", "line 3 of ids.txt").
int64_t parse_integer(const std::string& what, const std::string& text, int64_t least, int64_t most);
/// Whole numbers in [0, most] between white space, commas or brackets: "2, 105 [106]".
std::vector<int> parse_ids(const std::string& text, int most);
/// A size with a unit: "500MB", "2GB", "1GiB", plain bytes.
size_t parse_size(const std::string& what, const std::string& text);
/// A finite number in [least, most].
double parse_number(const std::string& what, const std::string& text, double least, double most);

}  // namespace slip::cli
