// doctor: whether a model works here, all of it: it loads, drafts change nothing, and pictures are really seen. An engine that
// ignores a picture talks about it fluently all the same, so two generated ones must get different, right answers.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>

#include "base/error.h"
#include "cli/commands/command.h"
#include "cli/commands/generated_picture.h"
#include "cli/flags/backend_options.h"
#include "cli/flags/draft_options.h"
#include "cli/flags/model_options.h"
#include "cli/terminal/output.h"
#include "media/worker_program.h"
#include "session/model.h"
#include "session/system_info.h"

namespace slip::cli {
namespace {

using session::Model;

constexpr int kAnswerTokens = 48;

class Doctor {
 public:
  explicit Doctor(Model& model) : model_(model) {}

  /// Each check gives a sentence about what it found, or throws one about what is wrong.
  void check(const char* what, const std::function<std::string()>& look) {
    try {
      say(what, "ok", look());
    } catch (const std::exception& error) {
      say(what, "FAIL", error.what());
      ++failed_;
    }
  }
  void say(const char* what, const char* verdict, const std::string& text) {
    write_out(fmt::format("{:<10} {:<4} {}\n", what, verdict, text));
  }
  int failed() const { return failed_; }

  std::string drafts() {
    if (!model_.drafts()) return "there are none";
    const session::Prompt prompt = ask("Count from one to ten.", {});
    const std::vector<int> plain = answer(prompt, false).tokens, drafted = answer(prompt, true).tokens;
    if (plain != drafted)
      fail(ErrorKind::kRuntime,
           "the reply is another one with drafts, which must never be; please report it");
    return fmt::format("{} tokens, the same with drafts and without", plain.size());
  }

  std::string pictures() {
    const std::string red = seen(Shape::kRedCircle), blue = seen(Shape::kBlueSquare);
    if (red == blue)
      fail(ErrorKind::kRuntime, "two different pictures get one answer, so pictures are not seen: \"{}\"",
           red);
    require(red, "red");
    require(blue, "blue");
    return fmt::format("\"{}\" and \"{}\"", red, blue);
  }

 private:
  session::Prompt ask(const std::string& words, std::span<const session::Picture> pictures) const {
    if (!model_.is_chat()) return model_.raw(words);
    text::Turn turn{.role = text::Role::kUser};
    turn.parts.assign(pictures.size(), {text::ContentPart::Kind::kImage, {}});
    turn.parts.push_back({text::ContentPart::Kind::kText, words});
    return model_.prompt({.turns = {turn}}, {}, pictures);
  }
  session::Reply answer(const session::Prompt& prompt, bool draft) {
    session::Generation generation{.max_tokens = kAnswerTokens, .draft = draft};
    generation.form = model_.is_chat() ? session::ReplyForm::kChat : session::ReplyForm::kText;
    generation.sampling.temperature = 0;
    session::Reply reply = model_.generate(model_.request(prompt, generation));
    reply.require_success();
    return reply;
  }
  std::string seen(Shape shape) {
    const session::Picture picture =
        model_.look({.name = "a generated picture", .bytes = generated_picture(shape)});
    return answer(ask("What colour is the shape in the middle?", {&picture, 1}), true).text;
  }
  static void require(const std::string& answer, const char* colour) {
    std::string lower = answer;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (lower.find(colour) == std::string::npos)
      fail(ErrorKind::kRuntime, "the shape is {}, but the model says \"{}\"", colour, answer);
  }

  Model& model_;
  int failed_ = 0;
};

int run_doctor(const Arguments& args) {
  ModelOptions model_options;
  BackendOptions backend;
  DraftOptions draft;
  Parser parser(doctor_command, "[-m MODEL] [OPTIONS]");
  add_model_option(parser, model_options);
  add_backend_options(parser, backend);
  add_draft_options(parser, draft);
  parser.footer("Exit code 0 only if everything works.");
  if (!parser.parse(args)) return kExitOk;

  const auto model =
      Model::open(model_options.model, {.vision = {.decoder = {.worker = media::this_program()}}});
  Doctor doctor(*model);
  const session::CpuInfo cpu = session::cpu_info();
  doctor.say("machine", "ok",
             fmt::format("{}, {} threads, {}, {} of memory available", cpu.name, cpu.threads,
                         session::simd_target(), bytes_text(session::memory_info().available)));
  doctor.check("model", [&] {
    model->open_drafters(draft);
    model->load({.backend = backend, .draft = draft, .engine = {.context = 2048, .sequences = 1}});
    return fmt::format("{}, on {}; drafting: {}", model->name(), model->device_text(),
                       model->drafting_text());
  });
  if (model->loaded() && model->has_tokenizer()) {
    doctor.check("drafts", [&] { return doctor.drafts(); });
    const bool sees = model->vision() != nullptr && model->is_chat();
    if (sees) doctor.check("pictures", [&] { return doctor.pictures(); });
    if (!sees) doctor.say("pictures", "-", "this model reads text alone");
  }
  return doctor.failed() == 0 ? kExitOk : Error(ErrorKind::kRuntime, "").exit_code();
}

}  // namespace

const Command doctor_command{
    "doctor", "Check that a model works here: drafts change nothing, pictures are seen", run_doctor};

}  // namespace slip::cli
