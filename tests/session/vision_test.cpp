// What a model sees, with the model in the box: from a file's bytes to a reply.
#include "session/vision.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "media/refused.h"
#include "session/model.h"
#include "session/picture_prompt.h"
#include "support/program.h"

namespace slip::session {
namespace {

using engine::FinishReason;

std::string in_tree(const std::string& path) {
  return std::string(SLIP_TEST_DATA) + "/../" + path;
}

std::unique_ptr<Model> open_model(size_t cache_bytes = size_t{64} << 20) {
  const media::WorkerCommand worker{.program = SLIP_PROGRAM, .arguments = {"--media-worker"}};
  return Model::open(in_tree("models/tiny"),
                     {.vision = {.decoder = {.worker = worker}, .cache_bytes = cache_bytes}});
}

std::unique_ptr<Model> make_model(int sequences = 2, int picture_tokens = 280) {
  auto model = open_model();
  LoadOptions options{.engine = {.context = 2048, .sequences = sequences}, .picture_tokens = picture_tokens};
  options.backend = {.device = DeviceKind::kCpu, .threads = 1};
  options.draft.kind = Drafting::kSuffix;
  model->load(options);
  return model;
}

PictureFile shapes() {
  const std::string text = test::read_file(in_tree("examples/shapes.png"));
  const auto bytes = std::as_bytes(std::span(text));
  return {.name = "shapes.png", .bytes = {bytes.begin(), bytes.end()}};
}

text::Conversation question(const std::string& words, size_t pictures = 1) {
  text::Turn turn{.role = text::Role::kUser};
  turn.parts.assign(pictures, {text::ContentPart::Kind::kImage, {}});
  turn.parts.push_back({text::ContentPart::Kind::kText, words});
  return {.turns = {turn}};
}

Generation greedy(int tokens = 60) {
  Generation generation{.max_tokens = tokens};
  generation.sampling.temperature = 0;
  return generation;
}

TEST(Vision, tells_what_a_picture_shows) {
  const auto model = make_model();
  const Picture picture = model->look(shapes());
  EXPECT_EQ(picture.facts().width, 384);
  EXPECT_EQ(picture.facts().soft_tokens, 64);
  EXPECT_FALSE(picture.known);
  const Prompt prompt = model->prompt(question("What do you see?"), {}, {&picture, 1});
  const Reply reply = model->generate(model->request(prompt, greedy()));
  EXPECT_EQ(
      reply.text,
      "The picture shows a red circle in the top left, a yellow star in the middle and a blue square in the "
      "bottom right.");
  EXPECT_EQ(reply.stats.media_tokens, 64);
  EXPECT_EQ(reply.stats.prompt_tokens, static_cast<int>(prompt.size()));
}

TEST(Vision, a_picture_stands_between_its_marks) {
  const auto model = open_model();
  const std::vector<Picture> pictures = {model->look(shapes()), model->look(shapes(), {.soft_tokens = 140})};
  const Prompt prompt = model->prompt(question("Count.", 2), {}, pictures);
  const auto& segments = prompt.segments();
  ASSERT_EQ(segments.size(), 5u);
  const checkpoint::MediaTokens& tokens = model->vision()->tokens();
  for (const size_t at : {1u, 3u}) {
    ASSERT_TRUE(segments[at].media.has_value());
    EXPECT_EQ(segments[at].media->span, Media::Span::kBothWays);
    EXPECT_EQ(segments[at - 1].ids.back(), tokens.begin_image);
    EXPECT_EQ(segments[at + 1].ids.front(), tokens.end_image);
  }
  EXPECT_EQ(segments[1].media->rows, 64);
  EXPECT_EQ(segments[3].media->rows, 121);
  EXPECT_NE(segments[1].media->key, segments[3].media->key);
}

TEST(Vision, refuses_marks_without_pictures_and_pictures_without_marks) {
  const auto model = open_model();
  const Picture picture = model->look(shapes());
  EXPECT_THROW(model->prompt(question("What?", 2), {}, {&picture, 1}), Error);
  EXPECT_THROW(model->prompt(question("What?", 0), {}, {&picture, 1}), Error);
  EXPECT_THROW(model->prompt(question("What?", 1)), Error);
  text::Conversation sound = question("What?", 0);
  sound.turns[0].parts.push_back({text::ContentPart::Kind::kAudio, {}});
  EXPECT_THROW(model->prompt(sound), Error);
  // Typed by a person it is text, and no place for a picture.
  EXPECT_THROW(model->prompt(question("<|image|>", 0), {}, {&picture, 1}), Error);
}

TEST(Vision, a_picture_that_comes_again_is_known) {
  const auto model = make_model();
  const Picture first = model->look(shapes());
  EXPECT_EQ(model->look(shapes()).rows, first.rows) << "also before it is encoded";
  EXPECT_NE(model->look(shapes(), {.soft_tokens = 140}).rows, first.rows);
  EXPECT_NE(model->look(shapes(), {.salt = {.high = 1, .low = 2}}).rows, first.rows) << "of another tenant";
  const auto ask = [&](const Picture& picture) {
    return model->generate(model->request(model->prompt(question("What?"), {}, {&picture, 1}), greedy(8)))
        .tokens;
  };
  const std::vector<int> reply = ask(first);
  ASSERT_TRUE(first.rows->settled());
  const double encode_s = first.rows->encode_s();
  const Picture again = model->look(shapes());
  EXPECT_TRUE(again.known);
  EXPECT_EQ(ask(again), reply);
  EXPECT_EQ(first.rows->encode_s(), encode_s) << "encoded once";
}

TEST(Vision, what_the_cache_let_go_is_made_again) {
  const auto model = open_model(0);
  LoadOptions options{.engine = {.context = 1024, .sequences = 1}};
  options.backend = {.device = DeviceKind::kCpu, .threads = 1};
  options.draft.kind = Drafting::kNone;
  model->load(options);
  std::vector<std::vector<int>> replies;
  for (int i = 0; i < 2; ++i) {
    const Picture picture = model->look(shapes());
    EXPECT_FALSE(picture.known) << i;
    replies.push_back(
        model->generate(model->request(model->prompt(question("What?"), {}, {&picture, 1}), greedy(8)))
            .tokens);
    model->between_steps([](backend::Backend&) {});  // the request is gone, and what it held
  }
  EXPECT_EQ(replies[0], replies[1]);
}

TEST(Vision, refuses_a_file_by_name_and_leaves_the_model_as_it_was) {
  const auto model = open_model();
  PictureFile broken = shapes();
  broken.bytes.resize(broken.bytes.size() / 2);
  try {
    model->look(broken);
    FAIL() << "was read";
  } catch (const media::Refused& refused) {
    EXPECT_EQ(refused.fault(), media::Fault::kCutOff);
    EXPECT_TRUE(std::string(refused.what()).starts_with("shapes.png: "));
  }
  EXPECT_THROW(model->look(shapes(), {.soft_tokens = 100}), Error);
  EXPECT_EQ(model->look(shapes()).facts().soft_tokens, 64);
}

TEST(Vision, foresees_how_many_positions_a_picture_takes) {
  const auto model = open_model();
  const Vision& vision = *model->vision();
  EXPECT_EQ(vision.default_soft_tokens(), 70) << "as processor_config.json says";
  for (const int budget : media::kBudgets) {
    const PictureOptions options{.soft_tokens = budget};
    EXPECT_EQ(vision.foresee(shapes(), options), model->look(shapes(), options).facts().soft_tokens)
        << budget;
  }
  EXPECT_EQ(vision.foresee({.name = "x", .bytes = std::vector<std::byte>(100)}), std::nullopt);
}

TEST(Vision, a_request_for_a_picture_that_is_cancelled_ends_and_others_go_on) {
  const auto model = make_model(2, 1120);
  std::atomic<FinishReason> ended{FinishReason::kNone};
  {
    const Picture picture = model->look(shapes(), {.soft_tokens = 1120});
    engine::Request request = model->request(model->prompt(question("What?"), {}, {&picture, 1}), greedy(8));
    request.sink = [&](const engine::Delta& delta) {
      if (delta.finish != FinishReason::kNone) ended = delta.finish;
    };
    model->cancel(model->submit(std::move(request)));
  }
  const Reply text = model->generate(model->request(model->prompt(question("Hello.", 0)), greedy(8)));
  EXPECT_EQ(text.tokens.size(), 8u);
  while (ended == FinishReason::kNone) std::this_thread::yield();
  EXPECT_EQ(ended, FinishReason::kCancelled);
}

TEST(Vision, texts_go_on_while_a_picture_is_encoded) {
  const auto model = make_model(2, 1120);
  std::atomic<int> written{0};
  Generation endless = greedy(1500);
  endless.ignore_stop_ids = true;
  engine::Request text = model->request(model->prompt(question("Tell me a story.", 0)), endless);
  text.sink = [&](const engine::Delta&) { ++written; };
  const uint64_t id = model->submit(std::move(text));
  while (written < 10) std::this_thread::yield();

  const Picture picture = model->look(shapes(), {.soft_tokens = 1120});
  std::atomic<int> before{-1};
  engine::Request request = model->request(model->prompt(question("What?"), {}, {&picture, 1}), greedy(1));
  request.sink = [&](const engine::Delta&) { before = written.load(); };
  const int at_submit = written;
  model->submit(std::move(request));
  while (before < 0) std::this_thread::yield();
  // A slice is as long as a step, and the tower takes far longer than a step.
  EXPECT_GT(before, at_submit + 10);
  model->cancel(id);
}

TEST(Vision, pictures_of_many_requests_at_once_each_get_their_own_answer) {
  const auto model = make_model(3);
  const std::vector<int> budgets{70, 140, 280};
  const auto ask = [&](int budget) {
    const Picture picture = model->look(shapes(), {.soft_tokens = budget});
    return model->generate(model->request(model->prompt(question("What?"), {}, {&picture, 1}), greedy(12)))
        .tokens;
  };
  std::vector<std::vector<int>> alone;
  for (const int budget : budgets) alone.push_back(ask(budget));
  const auto fresh = make_model(3);
  std::vector<std::thread> threads;
  std::vector<std::vector<int>> together(9);
  for (size_t i = 0; i < together.size(); ++i) {
    threads.emplace_back([&, i] {
      const Picture picture = fresh->look(shapes(), {.soft_tokens = budgets[i % 3]});
      together[i] =
          fresh->generate(fresh->request(fresh->prompt(question("What?"), {}, {&picture, 1}), greedy(12)))
              .tokens;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < together.size(); ++i) EXPECT_EQ(together[i], alone[i % 3]) << i;
}

}  // namespace
}  // namespace slip::session
