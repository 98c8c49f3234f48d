#include "cli/commands/serve_flags.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/flags/backend_options.h"
#include "cli/flags/draft_options.h"
#include "cli/flags/parser.h"
#include "cli/terminal/closest.h"
#include "cli/terminal/output.h"
#include "media/fit.h"
#include "session/default_model.h"
#include "text/utf8.h"

namespace slip::cli {
namespace {

using server::ServeOptions;
using std::chrono::milliseconds;

constexpr int64_t kMost = INT32_MAX;

/// Seconds, with a fraction.
void add_seconds(Parser& parser, const OptionText& option, milliseconds& target) {
  parser.parsed(option, [&target, name = option.names](const std::string& text) {
    target = milliseconds(static_cast<int64_t>(parse_number(name, text, 0, 1e6) * 1000));
  });
}

void add_bytes(Parser& parser, const OptionText& option, size_t& target) {
  parser.parsed(option,
                [&target, name = option.names](const std::string& text) { target = parse_size(name, text); });
}

void add_model_topic(Parser& parser, ServeOptions& options) {
  parser.group("Model");
  parser.text({"-m,--model", "MODEL", "folder, or name in the Hugging Face cache (default: models/tiny)"},
              options.model);
  parser.flag("--pull", options.pull, "download the model if it is not here");
  parser.texts({"--served-model-name", "NAME", "what clients call it; several may be given"},
               options.service.names.served_names);
  parser.flag("--strict-models", options.service.names.strict, "refuse names such as claude-* and gpt-*");
  parser.integer(
      {"-c,--context,--ctx-size", "N", "longest prompt plus answer (default: 32k to 256k, as fits)"}, 1,
      kMost, options.context);
  parser.integer({"--max-sequences", "N", "replies written at once (default: 16 on a CPU, 64 on a GPU)"}, 1,
                 4096, options.sequences);
  add_bytes(parser, {"--cache", "SIZE", "for the caches of all replies (default: 9/10 of free memory)"},
            options.cache_bytes);
  add_backend_options(parser, options.backend);
  parser.group("Speculation");
  add_draft_options(parser, options.draft);
  parser.integer(
      {"--draft-max-sequences", "N", "with more replies at once nobody guesses (default: no bound)"}, 1, 4096,
      options.draft_sequences);
}

void add_network_topic(Parser& parser, ServeOptions& options) {
  parser.group("Network");
  parser.text({"--host", "ADDRESS", "address to listen on (default 127.0.0.1)"}, options.http.host);
  parser.integer({"-p,--port", "N", "0 takes any free one and says which (default 8080)"}, 0, 65535,
                 options.http.port);
  parser.text({"--unix-socket", "PATH", "listen there too"}, options.http.unix_socket);
  parser.text({"--base-path", "PATH", "serve below this path, /gemma for example"}, options.http.base_path);
  parser.text(
      {"--api-key,--api-key-file", "FILE", "one key a line; or SLIPSTREAM_API_KEY, separated by commas"},
      options.key_file);
  parser.flag("--metrics-open", options.metrics_open, "/metrics needs no key");
  parser.texts({"--allowed-host", "HOST", "another name this server is called by; * for any"},
               options.http.allowed_hosts);
  parser.texts({"--cors-origin", "ORIGIN", "a site whose pages may ask, https://app.example; * for any"},
               options.http.cors_origins);
}

void add_limits_topic(Parser& parser, ServeOptions& options) {
  parser.group("Limits");
  parser.integer({"--queue", "N", "replies that wait before others are refused (default 64)"}, 0, 1 << 20,
                 options.service.limits.queue);
  parser.integer({"--max-request-tokens", "N", "prompt and answer of a request (default: the context)"}, 2,
                 kMost, options.service.limits.request_tokens);
  parser.integer({"--answer-tokens", "N", "where a request does not say (default: the room left)"}, 1, kMost,
                 options.service.answer_tokens);
  parser.number({"--deadline", "SECONDS", "of every request; what cannot meet it is refused (default: none)"},
                0, 1e6, options.service.limits.deadline_s);
  add_bytes(parser, {"--max-body", "SIZE", "of a request (default 64MiB)"}, options.http.limits.body_bytes);
  add_bytes(parser, {"--max-head", "SIZE", "request line and headers (default 64KiB)"},
            options.http.limits.head_bytes);
  parser.integer({"--max-headers", "N", "of a request (default 100)"}, 1, 10000, options.http.limits.headers);
  parser.integer({"--max-connections", "N", "open at once (default 4096)"}, 1, 1 << 20,
                 options.http.limits.connections);
  add_bytes(parser, {"--max-unsent", "SIZE", "of a stream that is not read (default 1MiB)"},
            options.http.limits.unsent_bytes);
  add_seconds(parser, {"--head-timeout", "SECONDS", "for the headers of a request (default 20)"},
              options.http.times.head);
  add_seconds(parser, {"--body-timeout", "SECONDS", "for its body (default 120)"}, options.http.times.body);
  add_seconds(parser, {"--idle-timeout", "SECONDS", "between two requests (default 120)"},
              options.http.times.idle);
}

void add_images_topic(Parser& parser, ServeOptions& options) {
  server::api::ImageRules& images = options.service.images;
  parser.group("Images");
  parser.choice<bool>({"--images", "on|off", "whether pictures are taken (default on, where the model sees)"},
                      {{"on", true}, {"off", false}}, images.on);
  std::vector<std::pair<std::string, std::optional<int>>> budgets;
  std::vector<std::pair<std::string, int>> most;
  for (const int budget : media::kBudgets) {
    budgets.emplace_back(std::to_string(budget), budget);
    most.emplace_back(std::to_string(budget), budget);
  }
  budgets.emplace_back("auto", media::kAutoBudget);
  parser.choice({"--image-tokens", "N", "where a request does not say (default: the model's own)"}, budgets,
                images.soft_tokens);
  parser.choice({"--max-image-tokens", "N", "most a request may have, and detail \"high\" (default 1120)"},
                most, images.most_soft_tokens);
  parser.integer({"--max-images", "N", "in a request (default 32)"}, 1, 1000, images.most);
  add_bytes(parser, {"--max-image-bytes", "SIZE", "of all pictures of a request (default 64MiB)"},
            images.bytes);
  parser.text({"--media-path", "DIR", "file: URLs may name pictures below it (default: none may)"},
              images.sources.folder);
  parser.flag("--allow-media-urls", images.sources.web,
              "fetch http and https URLs, from public addresses alone");
  parser.texts({"--allowed-media-domain", "DOMAIN", "with that: this one and those below it alone; several"},
               images.sources.domains);
}

void add_running_topic(Parser& parser, ServeOptions& options) {
  parser.group("Running");
  parser.choice<bool>(
      {"--log-format", "FORMAT", "of the line that each request gets: text or json (default text)"},
      {{"text", false}, {"json", true}}, options.service.json_log);
  parser.flag("-q,--quiet", options.quiet, "print errors alone");
  add_seconds(parser,
              {"--drain-grace", "SECONDS", "on SIGTERM requests are still taken so long (default 10)"},
              options.drain_grace);
  add_seconds(parser, {"--drain-timeout", "SECONDS", "then answers may take so long to finish (default 60)"},
              options.drain_timeout);
  add_seconds(parser, {"--step-timeout", "SECONDS", "a step that hangs ends the process (default 120)"},
              options.step_limit);
}

struct Topic {
  const char* name;
  const char* about;
  void (*add)(Parser&, ServeOptions&);
};
constexpr Topic kTopics[] = {{"model", "which model, where it runs, who drafts", add_model_topic},
                             {"network", "where it listens, who may ask", add_network_topic},
                             {"limits", "how much of everything", add_limits_topic},
                             {"images", "pictures: how many, how large, from where", add_images_topic},
                             {"running", "logs, and how it ends", add_running_topic}};

constexpr const char* kUsage = "[-m MODEL] [--port N] [OPTIONS]";

std::string overview_text() {
  std::string text = fmt::format("{}.\n\nUsage: slipstream serve {}\n\n", serve_command.summary, kUsage);
  text +=
      "  slipstream serve                              the demonstration model on http://127.0.0.1:8080\n"
      "  slipstream serve -m google/gemma-4-E2B-it     another one\n"
      "  slipstream serve --host 0.0.0.0 --api-key-file keys.txt\n\nOptions, by topic:\n";
  for (const Topic& topic : kTopics)
    text += fmt::format("  slipstream serve --help {:<8}  {}\n", topic.name, topic.about);
  return text +
         "\nEvery option may also stand in a file (--config FILE: lines of \"port = 8080\") and in the "
         "environment\n"
         "(SLIPSTREAM_PORT=8080). The command line overrules both.\n";
}

/// Prints the help that was asked for; false when none was.
bool help(const Arguments& args) {
  const auto asked =
      std::find_if(args.begin(), args.end(), [](const std::string& a) { return a == "--help" || a == "-h"; });
  if (asked == args.end()) return false;
  if (asked + 1 == args.end()) {
    write_out(overview_text());
    return true;
  }
  std::vector<std::string> names;
  for (const Topic& topic : kTopics) {
    names.emplace_back(topic.name);
    if (*(asked + 1) != topic.name) continue;
    ServeOptions ignored;
    Parser parser(serve_command, kUsage);
    topic.add(parser, ignored);
    write_out(parser.help());
    return true;
  }
  std::string guess = did_you_mean(*(asked + 1), names);
  if (guess.empty()) guess = fmt::format("; there are {}", fmt::join(names, ", "));
  fail_usage("serve has no help on '{}'{}", escaped(*(asked + 1)), guess);
}

/// The options that the environment may set: a name without dashes, and whether it takes a value.
constexpr std::pair<const char*, bool> kSettings[] = {{"model", true},
                                                      {"served-model-name", true},
                                                      {"strict-models", false},
                                                      {"context", true},
                                                      {"max-sequences", true},
                                                      {"cache", true},
                                                      {"device", true},
                                                      {"threads", true},
                                                      {"activations", true},
                                                      {"kv", true},
                                                      {"draft-model", true},
                                                      {"draft-kind", true},
                                                      {"draft-depth", true},
                                                      {"draft-bits", true},
                                                      {"draft-max-sequences", true},
                                                      {"host", true},
                                                      {"port", true},
                                                      {"unix-socket", true},
                                                      {"base-path", true},
                                                      {"api-key-file", true},
                                                      {"metrics-open", false},
                                                      {"allowed-host", true},
                                                      {"cors-origin", true},
                                                      {"queue", true},
                                                      {"max-request-tokens", true},
                                                      {"answer-tokens", true},
                                                      {"deadline", true},
                                                      {"max-body", true},
                                                      {"max-head", true},
                                                      {"max-headers", true},
                                                      {"max-connections", true},
                                                      {"max-unsent", true},
                                                      {"head-timeout", true},
                                                      {"body-timeout", true},
                                                      {"idle-timeout", true},
                                                      {"images", true},
                                                      {"image-tokens", true},
                                                      {"max-image-tokens", true},
                                                      {"max-images", true},
                                                      {"max-image-bytes", true},
                                                      {"media-path", true},
                                                      {"allow-media-urls", false},
                                                      {"allowed-media-domain", true},
                                                      {"log-format", true},
                                                      {"quiet", false},
                                                      {"drain-grace", true},
                                                      {"drain-timeout", true},
                                                      {"step-timeout", true}};

void add_setting(const std::string& name, const std::string& value, const std::string& where,
                 Arguments& args) {
  const auto known = std::find_if(std::begin(kSettings), std::end(kSettings),
                                  [&](const auto& setting) { return name == setting.first; });
  if (known == std::end(kSettings)) {
    std::vector<std::string> names;
    for (const auto& setting : kSettings) names.emplace_back(setting.first);
    fail_usage("{}: there is no option '{}'{}", where, escaped(name), did_you_mean(name, names));
  }
  if (known->second) {
    args.push_back("--" + name);
    args.push_back(value);
  } else if (value == "true" || value == "1" || value == "on" || value == "yes") {
    args.push_back("--" + name);
  } else if (value != "false" && value != "0" && value != "off" && value != "no" && !value.empty()) {
    fail_usage("{}: {} must be true or false, not '{}'", where, name, escaped(value));
  }
}

Arguments environment_arguments() {
  Arguments args;
  for (const auto& [name, takes_value] : kSettings) {
    std::string variable = std::string("SLIPSTREAM_") + name;
    for (char& c : variable)
      c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (const char* value = std::getenv(variable.c_str())) add_setting(name, value, variable, args);
  }
  return args;
}

/// Takes --config FILE out of the arguments.
std::string take_config(Arguments& args) {
  const char* from_environment = std::getenv("SLIPSTREAM_CONFIG");
  std::string file = from_environment == nullptr ? "" : from_environment;
  for (size_t i = 0; i < args.size();) {
    if (args[i].starts_with("--config=")) {
      file = args[i].substr(9);
      args.erase(args.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (args[i] == "--config") {
      if (i + 1 == args.size()) fail_usage("--config needs the name of a file");
      file = args[i + 1];
      args.erase(args.begin() + static_cast<std::ptrdiff_t>(i),
                 args.begin() + static_cast<std::ptrdiff_t>(i) + 2);
    } else {
      ++i;
    }
  }
  return file;
}

}  // namespace

Arguments file_arguments(const std::string& text, const std::string& name) {
  Arguments args;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text::trim(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const size_t equals = line.find('=');
    const std::string where = fmt::format("{}, line {}", name, number);
    if (equals == std::string_view::npos) fail_usage("{}: must look like \"port = 8080\"", where);
    add_setting(std::string(text::trim(line.substr(0, equals))),
                std::string(text::trim(line.substr(equals + 1))), where, args);
  }
  return args;
}

bool parse_serve(const Arguments& args, ServeOptions& options) {
  if (help(args)) return false;
  Arguments own = args;
  const std::string config = take_config(own);
  Arguments all;
  if (!config.empty()) all = file_arguments(read_text_file(config, size_t{1} << 20), config);
  const Arguments environment = environment_arguments();
  all.insert(all.end(), environment.begin(), environment.end());
  all.insert(all.end(), own.begin(), own.end());
  Parser parser(serve_command, kUsage);
  for (const Topic& topic : kTopics) topic.add(parser, options);
  parser.parse(all);
  session::validate(options.draft);
  return true;
}

}  // namespace slip::cli
