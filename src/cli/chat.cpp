// chat: a conversation in the terminal. A client of the engine like generate; the conversation itself is in
// chat_session.h, the keyboard in terminal.h. Without a terminal every line of stdin is a message or command.
#include <fmt/format.h>

#include <iostream>
#include <optional>

#include "base/error.h"
#include "cli/chat_command.h"
#include "cli/chat_options.h"
#include "cli/chat_session.h"
#include "cli/command.h"
#include "cli/default_model.h"
#include "cli/drafters.h"
#include "cli/interrupt.h"
#include "cli/loaded_model.h"
#include "cli/output.h"
#include "cli/reply_printer.h"
#include "cli/statistics.h"
#include "cli/terminal.h"
#include "engine/engine.h"

namespace slip::cli {
namespace {

using engine::FinishReason;

std::string dimmed(const std::string& text) {
  return stderr_is_terminal() ? fmt::format("\x1b[2m{}\x1b[0m\n", text) : text + "\n";
}

/// One reply as it comes: printed, and kept for the history.
struct Hearing {
  explicit Hearing(const ChatOptions& options)
      : printer({.terminal = stdout_is_terminal(),
                 .thinking = shows_thinking(options.conversation, stdout_is_terminal())}) {}

  /// For the engine's sink, which must not throw.
  void take(const engine::Delta& delta) {
    try {
      const std::string text = printer.print(reply.take(delta));
      if (!text.empty()) write_out(text);
    } catch (...) {
      failure = std::current_exception();
    }
    finish = delta.finish;
    error = delta.error;
    if (delta.stats != nullptr) stats = *delta.stats;
  }

  Reply reply;
  ReplyPrinter printer;
  engine::Stats stats;
  FinishReason finish = FinishReason::kNone;
  std::string error;
  std::exception_ptr failure;
};

class Chat {
 public:
  Chat(const ChatOptions& options, LoadedModel& model, Drafters& drafters)
      : options_(options),
        model_(model),
        drafters_(drafters),
        engine_(*model.backend, {.context = options.lengths.context, .sequences = 1},
                drafters.speculator.get()),
        session_(*model.tokenizer, model.chat) {
    session_.system = options.conversation.system;
    session_.thinking = options.conversation.thinking();
  }

  void talk_in_terminal() {
    InterruptGuard guard(InterruptGuard::Second::kCounts);
    Terminal terminal;
    terminal_ = &terminal;
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
      if (!hear(line, guard)) return;
    }
  }

  void talk_in_lines() {
    for (std::string line; std::getline(std::cin, line);) {
      InterruptGuard guard(InterruptGuard::Second::kCounts);
      if (!hear(line, guard)) return;
    }
  }

  /// Of the last thing that was refused; kExitOk when nothing was.
  int refused() const { return refused_; }

 private:
  /// False when it is time to leave.
  bool hear(const std::string& line, InterruptGuard& guard) {
    try {
      const ChatInput input = read_input(line);
      if (input.kind == ChatInput::Kind::kExit) return false;
      if (input.kind == ChatInput::Kind::kMessage) {
        answer(input.text, guard);
      } else {
        write_err(obey(input));
      }
    } catch (const Error& error) {
      // A message that cannot be answered is no reason to lose the conversation.
      if (error.kind() != ErrorKind::kUsage && error.kind() != ErrorKind::kOutOfMemory) throw;
      write_err(fmt::format("{}\n", error.what()));
      refused_ = error.exit_code();
    }
    return true;
  }

  std::string obey(const ChatInput& input) {
    switch (input.kind) {
      case ChatInput::Kind::kSystem: return set_system(input.text);
      case ChatInput::Kind::kThink: return set_thinking(input.text);
      case ChatInput::Kind::kImage:
        return "this build has no images yet, so the model cannot see it; ask with text alone\n";
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

  std::string set_thinking(const std::string& text) {
    if (text == "on" || text == "off") {
      session_.thinking = text == "on";
    } else if (!text.empty()) {
      fail_usage("/think is followed by on or off, not '{}'", escaped(text));
    }
    return fmt::format("thinking is {}\n", session_.thinking ? "on" : "off");
  }

  int context() const { return engine_.context(); }

  void answer(const std::string& message, InterruptGuard& guard) {
    std::vector<int> prompt = session_.prompt(message);
    if (prompt.size() >= static_cast<size_t>(context())) {
      fail_usage(
          "the context is full: with this message the conversation has {} tokens, and {} fit; nothing was "
          "sent. /reset starts a new one, and the up arrow brings the message back",
          prompt.size(), context());
    }
    Hearing hearing(options_);
    engine::Request request = make_request(model_, options_.sampling, options_.lengths, std::move(prompt));
    request.text = hearing.reply.stream(*model_.tokenizer);
    request.sink = [&hearing](const engine::Delta& delta) { hearing.take(delta); };
    run(std::move(request), hearing, guard);
    if (hearing.failure) std::rethrow_exception(hearing.failure);
    write_out(hearing.printer.end());
    const bool kept = session_.add(message, hearing.reply);
    count(hearing.stats);
    write_err(ending(hearing));
    if (!kept) write_err("there was no answer, so the message is taken back; the up arrow brings it again\n");
    if (!options_.quiet) write_err(dimmed(footer(hearing.printer.hidden())));
  }

  void run(engine::Request request, const Hearing& hearing, InterruptGuard& guard) {
    const Terminal::Interruptible interruptible(terminal_);
    guard.clear();
    const uint64_t id = engine_.submit(std::move(request));
    while (engine_.step()) {
      if (guard.interrupted() || hearing.failure) engine_.cancel(id);
    }
  }

  void count(const engine::Stats& stats) {
    last_ = stats;
    used_ = stats.prompt_tokens + stats.output_tokens;
    replies_ += 1;
    tokens_ += stats.output_tokens;
    speculation_.add(stats.speculation);
  }

  /// Why a reply ended, where that is not plain.
  std::string ending(const Hearing& hearing) const {
    switch (hearing.finish) {
      case FinishReason::kCancelled: return "stopped\n";
      case FinishReason::kError: return hearing.error + "\n";
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
    const SpeedReport report{.stats = last_};
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
      text += fmt::format("last reply: {}\n", statistics_text(measure(*model_.backend, last_)));
    if (drafters_.speculator == nullptr) return text;
    const std::string acceptance = acceptance_text(speculation_);
    if (!acceptance.empty()) text += fmt::format("drafting since the start: {}\n", acceptance);
    for (const std::string& failure : drafters_.speculator->failures()) text += failure + "\n";
    return text;
  }

  const ChatOptions& options_;
  LoadedModel& model_;
  Drafters& drafters_;
  engine::Engine engine_;
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
  const std::string chosen = use_default_model(options.model);
  const std::string folder = model_folder(options.model);
  LoadedModel model = open_model(folder, /*with_tokenizer=*/true);
  if (!has_turns(*model.tokenizer)) {
    fail_usage("{}: the tokenizer has no chat turns, so there is no talking to it; use generate --raw",
               folder);
  }
  require_context(options.lengths, model.config(), 1);
  resolve_sampling(options.sampling, model.checkpoint->generation, model.config().vocab);
  Drafters drafters = open_drafters(options.draft, options.model.model, folder, *model.checkpoint);
  if (!options.quiet) write_err(chosen);
  load_weights(model, options.backend);
  load_drafters(drafters, options.draft, *model.backend, 1);

  const bool terminal = Terminal::usable();
  if (!options.quiet) {
    write_err(fmt::format("device: {}\ndrafting: {}\n", device_text(model), drafters.description));
    if (terminal) write_err("Write a message; /help lists the commands, Ctrl-D leaves.\n");
  }
  Chat chat(options, model, drafters);
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
