// tokenize: text to token ids and back, to see what a model sees.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands/command.h"
#include "cli/commands/pulling.h"
#include "cli/flags/model_options.h"
#include "cli/flags/parser.h"
#include "cli/terminal/output.h"
#include "cli/terminal/text_input.h"
#include "text/tokenizer.h"

namespace slip::cli {
namespace {

using nlohmann::ordered_json;

struct TokenizeArguments {
  ModelOptions model;
  std::optional<std::string> file;
  std::vector<std::string> words;
  bool json = false, count = false, ids = false, decode = false;
  bool bos = false, no_specials = false;
};

bool parse(const Arguments& args, TokenizeArguments& options) {
  Parser parser(tokenize_command, "[-m MODEL] [OPTIONS] [TEXT...]");
  parser.words({"", "TEXT", "the text, or ids with --decode; else -f or the standard input"}, options.words,
               0, INT32_MAX);
  add_model_option(parser, options.model);
  parser.text({"-f,--file", "FILE", "read the text from a file; - is the standard input"}, options.file);
  parser.flag("--ids", options.ids, "print the ids alone, on one line");
  parser.flag("--count", options.count, "print only how many tokens there are");
  parser.flag("--json", options.json, "print one JSON object: ids and pieces, or text");
  parser.flag("--bos", options.bos, "put the begin-of-text token in front");
  parser.flag("--no-specials", options.no_specials,
              "take '<eos>' and the like as ordinary text; hide them in --decode");
  parser.flag("--decode", options.decode, "the other way: turn ids into text");
  parser.footer(
      "Example: slipstream tokenize -m MODEL 'Hello there'\n"
      "         slipstream tokenize -m MODEL --ids 'Hello there' | slipstream tokenize -m MODEL --decode");
  if (!parser.parse(args)) return false;
  if (options.decode && (options.ids || options.bos)) {
    fail_usage("--decode prints text; leave out {}", options.ids ? "--ids" : "--bos");
  }
  return true;
}

/// The tokenizer of a model, or a tokenizer.json by itself.
text::Tokenizer load_tokenizer(const ModelOptions& options) {
  offer_pull(options, Needs::kTokenizer);
  const std::string path = model_folder(options);
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return text::Tokenizer::load(path);
  return text::Tokenizer::load(path + "/tokenizer.json");
}

std::string input_text(const TokenizeArguments& options) {
  TextSource source{.given = std::nullopt, .file = options.file};
  if (!options.words.empty()) source.given = fmt::format("{}", fmt::join(options.words, " "));
  return read_text(source, "TEXT, -f FILE or a pipe");
}

void print_json(const ordered_json& value) {
  write_out(value.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

void decode(const TokenizeArguments& options, const text::Tokenizer& tokenizer) {
  const std::vector<int> ids = parse_ids(input_text(options), tokenizer.vocab_size() - 1);
  const std::string text = tokenizer.decode(ids, {.skip_specials = options.no_specials});
  if (options.count) {
    write_out(fmt::format("{}\n", ids.size()));
  } else if (options.json) {
    print_json({{"text", text}});
  } else {
    write_out(text + "\n");
  }
}

void encode(const TokenizeArguments& options, const text::Tokenizer& tokenizer) {
  const std::vector<int> ids =
      tokenizer.encode(input_text(options), {.specials = !options.no_specials, .add_bos = options.bos});
  if (options.count) {
    write_out(fmt::format("{}\n", ids.size()));
  } else if (options.json) {
    ordered_json pieces = ordered_json::array();
    for (const int id : ids) pieces.push_back(tokenizer.piece(id));
    print_json({{"count", ids.size()}, {"ids", ids}, {"pieces", pieces}});
  } else if (options.ids) {
    write_out(fmt::format("{}\n", fmt::join(ids, " ")));
  } else {
    std::string lines;
    for (const int id : ids) lines += fmt::format("{:>7}  {}\n", id, escaped(tokenizer.piece(id)));
    write_out(lines);
  }
}

int run_tokenize(const Arguments& args) {
  TokenizeArguments options;
  if (!parse(args, options)) return kExitOk;
  const text::Tokenizer tokenizer = load_tokenizer(options.model);
  if (options.decode) {
    decode(options, tokenizer);
  } else {
    encode(options, tokenizer);
  }
  return kExitOk;
}

}  // namespace

const Command tokenize_command{"tokenize", "Turn text into a model's tokens, or tokens into text",
                               run_tokenize};

}  // namespace slip::cli
