// chat: a conversation in the terminal. The conversation itself is in
// chat_session.h, the keyboard in terminal.h. Without a terminal every line of stdin is a message or command.
#include <fmt/format.h>

#include <iostream>
#include <optional>

#include "base/error.h"
#include "cli/commands/chat_command.h"
#include "cli/commands/chat_options.h"
#include "cli/commands/chat_session.h"
#include "cli/commands/command.h"
#include "cli/commands/loading.h"
#include "cli/commands/pictures.h"
#include "cli/commands/pulling.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/output.h"
#include "cli/terminal/reply_printer.h"
#include "cli/terminal/report_text.h"
#include "cli/terminal/terminal.h"
#include "media/fit.h"
#include "media/worker_program.h"
#include "session/model.h"

namespace slip::cli {
namespace {

using engine::FinishReason;
using session::Model;

std::string dimmed(const std::string& text) {
  return stderr_is_terminal() ? fmt::format("\x1b[2m{}\x1b[0m\n", text) : text + "\n";
}

/// A path as terminals paste it when a file is dropped into them.
std::string unquoted(const std::string& path) {
  const bool quoted =
      path.size() > 1 && (path.front() == '\'' || path.front() == '"') && path.back() == path.front();
  return quoted ? path.substr(1, path.size() - 2) : path;
}

/// One reply as it comes: printed, and kept for the history.
class PrintedReply final : public session::ReplySink {
 public:
  explicit PrintedReply(const ChatOptions& options)
      : printer({.terminal = stdout_is_terminal(),
                 .thinking = shows_thinking(options.conversation, stdout_is_terminal())}) {}

  void on_delta(const engine::Delta& delta) override {
    reply.on_delta(delta);
    const std::string text = printer.print(delta.events);
    if (!text.empty()) write_out(text);
  }

  session::Reply reply;
  ReplyPrinter printer;
};

class Chat {
 public:
  Chat(const ChatOptions& options, Model& model, std::vector<session::Picture> pictures)
      : options_(options), model_(model) {
    for (session::Picture& picture : pictures) session_.show(std::move(picture));
    session_.system = options.conversation.system;
    session_.thinking = options.conversation.thinking();
  }

  void talk_in_terminal() {
    InterruptGuard guard(InterruptGuard::Second::kCounts);
    Terminal terminal;
    terminal_ = &terminal;
    read_messages(terminal, guard);
    terminal_ = nullptr;
  }

  void talk_in_lines() {
    for (std::string line; std::getline(std::cin, line);) {
      InterruptGuard guard(InterruptGuard::Second::kCounts);
      if (!on_line(line, guard)) return;
    }
  }

  /// Of the last thing that was refused; kExitOk when nothing was.
  int refused() const { return refused_; }

 private:
  void read_messages(Terminal& terminal, InterruptGuard& guard) {
    bool warned = false;
    while (true) {
      std::string line;
      const Terminal::Outcome outcome = terminal.read_line("> ", line);
      if (outcome == Terminal::Outcome::kEnd) return;
      if (outcome == Terminal::Outcome::kInterrupt) {
        if (std::exchange(warned, true)) return;
        write_err(dimmed("Ctrl-C again leaves, and so does Ctrl-D"));
        continue;
      }
      warned = false;
      if (!on_line(line, guard)) return;
    }
  }

  /// False when it is time to leave.
  bool on_line(const std::string& line, InterruptGuard& guard) {
    try {
      const ChatInput input = read_input(line);
      if (input.kind == ChatInput::Kind::kExit) return false;
      if (input.kind == ChatInput::Kind::kMessage) {
        answer(input.text, guard);
      } else {
        write_err(obey(input));
      }
    } catch (const Error& error) {
      // A message that cannot be answered, or a picture that cannot be read, is no reason to lose the conversation.
      if (error.kind() == ErrorKind::kRuntime) throw;
      write_err(fmt::format("{}\n", error.what()));
      refused_ = error.exit_code();
    }
    return true;
  }

  std::string obey(const ChatInput& input) {
    switch (input.kind) {
      case ChatInput::Kind::kSystem: return set_system(input.text);
      case ChatInput::Kind::kThink: return set_thinking(input.text);
      case ChatInput::Kind::kImage: return show(input.text);
      case ChatInput::Kind::kStats: return statistics();
      case ChatInput::Kind::kReset:
        session_.reset();
        used_ = 0;
        return "the conversation starts anew\n";
      case ChatInput::Kind::kHelp: return chat_help();
      default: return "";
    }
  }

  std::string set_system(const std::string& text) {
    if (text.empty()) {
      return session_.system.empty() ? "there are no instructions; /system TEXT gives some\n"
                                     : fmt::format("instructions: {}\n", session_.system);
    }
    session_.system = text == "off" ? "" : text;
    return session_.system.empty() ? "the instructions are removed\n" : "the instructions hold from now on\n";
  }

  std::string show(const std::string& path) {
    if (path.empty()) fail_usage("/image is followed by a file: /image cat.jpg");
    const std::vector<std::string> files{unquoted(path)};
    session_.show(std::move(look_at(model_, files, options_.images.tokens).front()));
    return fmt::format("{}\nit goes with the next message\n", picture_text(session_.pictures().back()));
  }

  std::string set_thinking(const std::string& text) {
    if (text == "on" || text == "off") {
      session_.thinking = text == "on";
    } else if (!text.empty()) {
      fail_usage("/think is followed by on or off, not '{}'", escaped(text));
    }
    return fmt::format("thinking is {}\n", session_.thinking.value_or(false) ? "on" : "off");
  }

  int context() const { return model_.context(); }

  void answer(const std::string& message, InterruptGuard& guard) {
    const session::Prompt prompt = session_.prompt(model_, message);
    if (prompt.size() >= static_cast<size_t>(context())) {
      fail_usage(
          "the context is full: with this message the conversation has {} tokens, and {} fit; nothing was "
          "sent. /reset starts a new one, and the up arrow brings the message back",
          prompt.size(), context());
    }
    engine::Request request = model_.request(
        prompt, {.sampling = options_.sampling, .max_tokens = options_.lengths.answer_limit()});
    PrintedReply printed(options_);
    {
      const Terminal::Interruptible interruptible(terminal_);
      guard.clear();
      PictureProgress progress(session_.waiting());
      model_.generate(std::move(request), printed, [&] {
        progress.update();
        return guard.interrupted();
      });
    }
    write_out(printed.printer.end());
    const bool kept = session_.add(message, printed.reply);
    count(printed.reply.stats);
    write_err(ending(printed.reply));
    if (!kept) write_err("there was no answer, so the message is taken back; the up arrow brings it again\n");
    if (!options_.quiet) write_err(dimmed(footer(printed.printer.hidden())));
  }

  void count(const engine::Stats& stats) {
    last_ = stats;
    used_ = stats.prompt_tokens + stats.output_tokens;
    replies_ += 1;
    tokens_ += stats.output_tokens;
    speculation_.add(stats.speculation);
  }

  /// Why a reply ended, where that is not plain.
  std::string ending(const session::Reply& reply) const {
    switch (reply.finish) {
      case FinishReason::kCancelled: return "stopped\n";
      case FinishReason::kError: return reply.error + "\n";
      case FinishReason::kMaxTokens:
        return fmt::format("the reply was cut at {} tokens; -n N allows more\n",
                           options_.lengths.answer_limit());
      case FinishReason::kContext:
        return fmt::format(
            "the context of {} tokens is full, and the reply ends here; /reset starts a new conversation\n",
            context());
      default: return "";
    }
  }

  /// "42 tokens, 61.3 tok/s | context 318 of 4096 | 2.61 tokens per pass"
  std::string footer(size_t hidden_thoughts) const {
    const session::Report report{.stats = last_};
    std::string text = fmt::format("{} tokens", last_.output_tokens);
    if (report.decode_rate() > 0) text += fmt::format(", {} tok/s", rate_text(report.decode_rate()));
    text += fmt::format(" | context {} of {}", used_, context());
    if (last_.speculation.rounds > 0)
      text += fmt::format(" | {:.2f} tokens per pass", last_.speculation.tokens_per_pass());
    if (hidden_thoughts > 0) text += fmt::format(" | {} of thoughts not shown", bytes_text(hidden_thoughts));
    return text;
  }

  std::string statistics() {
    std::string text = fmt::format("conversation: {} messages, {} of {} tokens of context\n",
                                   session_.messages(), used_, context());
    text += fmt::format("since the start: {} tokens in {} {}\n", tokens_, replies_,
                        replies_ == 1 ? "reply" : "replies");
    if (replies_ > 0)
      text += fmt::format("last reply: {}\n", statistics_text(session::measure(model_, last_)));
    if (!model_.drafts()) return text;
    const std::string acceptance = acceptance_text(speculation_);
    if (!acceptance.empty()) text += fmt::format("drafting since the start: {}\n", acceptance);
    for (const std::string& failure : model_.drafter_failures()) text += failure + "\n";
    return text;
  }

  const ChatOptions& options_;
  Model& model_;
  ChatSession session_;
  Terminal* terminal_ = nullptr;  // while there is one
  engine::Stats last_;
  speculate::Statistics speculation_;
  int used_ = 0, replies_ = 0, refused_ = kExitOk;
  int64_t tokens_ = 0;
};

int run_chat(const Arguments& args) {
  ChatOptions options;
  if (!parse_chat(args, options)) return kExitOk;
  offer_pull(options.model);
  const auto model =
      Model::open(options.model.model, {.chat_template = options.conversation.chat_template,
                                        .vision = {.decoder = {.worker = media::this_program()}}});
  if (!model->is_chat()) {
    fail_usage("{}: the tokenizer has no chat turns, so there is no talking to it; use generate --raw",
               model->checkpoint().path);
  }
  model->require_room(1, options.lengths.context);
  model->request({}, {.sampling = options.sampling});  // refuses options that no message could use
  std::vector<session::Picture> pictures = look_at(*model, options.images.files, options.images.tokens);
  const int picture_tokens = options.images.tokens ? options.images.most_tokens(0) : most_tokens_of(pictures);
  model->open_drafters(options.draft);
  if (!options.quiet) write_err(default_model_note(options.model));
  load_with_bar(*model, {.backend = options.backend,
                         .draft = options.draft,
                         .engine = {.context = options.lengths.context, .sequences = 1},
                         .vision = !pictures.empty(),
                         .picture_tokens = std::max(picture_tokens, media::kDefaultBudget)});

  const bool terminal = Terminal::usable();
  if (!options.quiet) {
    write_err(settings_text(*model));
    if (terminal) write_err("Write a message; /help lists the commands, Ctrl-D leaves.\n");
  }
  if (!options.quiet) {
    for (const session::Picture& picture : pictures) write_err(picture_text(picture) + "\n");
  }
  Chat chat(options, *model, std::move(pictures));
  if (terminal) {
    chat.talk_in_terminal();
    return kExitOk;
  }
  chat.talk_in_lines();
  return chat.refused();
}

}  // namespace

const Command chat_command{"chat", "Talk with a model in the terminal", run_chat};

}  // namespace slip::cli
