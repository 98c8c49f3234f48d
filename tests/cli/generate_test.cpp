// `generate` from outside, on tiny synthetic models: where prompts come from, what comes out, and how it
// ends.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/terminal/report_text.h"
#include "support/program.h"

namespace slip::cli {
namespace {

using nlohmann::json;
using test::Result;
using test::run;
using test::TemporaryFolder;
using test::write_file;

// Random weights may pick a stop token at any time; with this bias they never do.
constexpr const char* kEndless = "1=-1000,50=-1000,106=-1000";

/// A tokenizer of 512 ids without merges: control tokens, one token per byte, and one per letter.
std::string letter_tokenizer() {
  json vocab, added = json::array();
  int next = 0;
  for (const char* special :
       {"<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>", "<|channel>", "<channel|>"}) {
    added.push_back({{"id", next},
                     {"content", special},
                     {"special", true},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false}});
    vocab[special] = next++;
  }
  for (int byte = 0; byte < 256; ++byte) {
    char piece[8];
    std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
    vocab[piece] = next++;
  }
  for (char letter = 'a'; letter <= 'z'; ++letter) vocab[std::string(1, letter)] = next++;
  while (next < 512) {
    const int filler = next++;
    vocab["w" + std::to_string(filler)] = filler;
  }
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  return json{{"version", "1.0"},
              {"added_tokens", added},
              {"normalizer", replace},
              {"model",
               {{"type", "BPE"},
                {"unk_token", "<unk>"},
                {"fuse_unk", true},
                {"byte_fallback", true},
                {"vocab", vocab},
                {"merges", json::array()}}},
              {"decoder",
               {{"type", "Sequence"},
                {"decoders",
                 {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                  {{"type", "ByteFallback"}},
                  {{"type", "Fuse"}}}}}}}
      .dump();
}

class Generate : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    ASSERT_EQ(run({"synth", "--shape", "tiny-e2b", "--bits", "8", model()}).code, 0);
    write_file(model() + "/tokenizer.json", letter_tokenizer());
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string model() { return folder_->path("model"); }

  /// generate with this model, few tokens, one thread (tests run beside others).
  static Result generate(std::vector<std::string> args, const std::string& input = "") {
    args.insert(args.begin(), {"generate", "-m", model(), "-t", "1"});
    return run(args, input);
  }
  static json generate_json(std::vector<std::string> args) {
    args.insert(args.end(), {"--json", "-q"});
    const Result result = generate(args);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }
  static void expect_refusal(const std::vector<std::string>& args, int code, const std::string& words) {
    const Result result = generate(args);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  }

  inline static TemporaryFolder* folder_ = nullptr;
};

TEST_F(Generate, writes_as_many_tokens_as_asked) {
  const json out =
      generate_json({"--ids", "-p", "2 20 21 22", "-n", "5", "--temp", "0", "--logit-bias", kEndless});
  EXPECT_EQ(out["tokens"].size(), 5u);
  EXPECT_EQ(out["finish_reason"], "max tokens");
  EXPECT_EQ(out["statistics"]["prompt_tokens"], 4);
  EXPECT_EQ(out["statistics"]["output_tokens"], 5);
  EXPECT_GT(out["statistics"]["bytes_per_pass"].get<double>(), 0);
}

TEST_F(Generate, streams_the_same_tokens_it_reports_as_json) {
  const std::vector<std::string> args = {"--ids",  "-p", "2 20 21 22", "-n", "6",
                                         "--seed", "3",  "--temp",     "1"};
  const json out = generate_json(args);  // named, since the loop below reads from inside it
  std::string expected;
  for (const json& token : out["tokens"]) expected += (expected.empty() ? "" : " ") + token.dump();
  EXPECT_EQ(generate(args).out, expected + "\n");
}

TEST_F(Generate, gives_the_same_text_for_the_same_seed_and_prompt_source) {
  const std::vector<std::string> options = {"-n", "12", "--temp", "1", "--seed", "7"};
  const auto with = [&](std::vector<std::string> more, const std::string& input = "") {
    more.insert(more.end(), options.begin(), options.end());
    return generate(more, input);
  };
  const Result first = with({"-p", "hello"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(with({"-p", "hello"}).out, first.out);
  EXPECT_EQ(with({}, "hello\n").out, first.out);
  write_file(folder_->path("prompt.txt"), "hello\n");
  EXPECT_EQ(with({"-f", folder_->path("prompt.txt")}).out, first.out);
  EXPECT_NE(generate({"-p", "hello", "-n", "12", "--temp", "1", "--seed", "8"}).out, first.out);
}

TEST_F(Generate, puts_the_prompt_into_turns_unless_raw) {
  const auto tokens = [](std::vector<std::string> more) {
    more.insert(more.end(), {"-n", "1", "--temp", "0"});
    return generate_json(more)["statistics"]["prompt_tokens"].get<int>();
  };
  const int raw = tokens({"--raw", "-p", "hi"});
  EXPECT_EQ(raw, 3);  // <bos> h i
  const int chat = tokens({"-p", "hi"});
  EXPECT_GT(chat, raw + 6);
  EXPECT_GT(tokens({"--system", "be brief", "-p", "hi"}), chat + 8);
  EXPECT_EQ(tokens({"--raw", "-p", "<bos>hi"}), 3);  // no second <bos>
}

TEST_F(Generate, reports_log_probabilities_that_fit_together) {
  const json out =
      generate_json({"-p", "hi", "-n", "3", "--temp", "0", "--logprobs", "4", "--logit-bias", kEndless});
  ASSERT_EQ(out["logprobs"].size(), out["tokens"].size());
  for (const json& entry : out["logprobs"]) {
    ASSERT_EQ(entry["top"].size(), 4u);
    EXPECT_EQ(entry["top"][0]["id"], entry["id"]);  // greedy takes the likeliest
    EXPECT_LE(entry["logprob"].get<double>(), 0);
    EXPECT_GE(entry["top"][0]["logprob"].get<double>(), entry["top"][3]["logprob"].get<double>());
    EXPECT_TRUE(entry.contains("piece"));
  }
}

TEST_F(Generate, obeys_a_bias_and_ends_before_a_stop_text) {
  // Token 270 is the letter "g" (8 control tokens, 256 bytes, then a to z).
  const json biased = generate_json({"-p", "hi", "-n", "4", "--temp", "0", "--logit-bias", "270=1000"});
  EXPECT_EQ(biased["text"], "gggg");
  const json stopped =
      generate_json({"-p", "hi", "-n", "9", "--temp", "0", "--logit-bias", "270=1000", "--stop", "ggg"});
  EXPECT_EQ(stopped["text"], "");
  EXPECT_EQ(stopped["finish_reason"], "stop string");
}

TEST_F(Generate, prints_settings_and_a_line_of_statistics_and_nothing_else_to_stderr) {
  const Result plain =
      generate({"-p", "hi", "-n", "8", "--temp", "0", "--logit-bias", kEndless, "--draft-kind", "none"});
  EXPECT_EQ(std::count(plain.err.begin(), plain.err.end(), '\n'), 3) << plain.err;
  EXPECT_TRUE(plain.err.starts_with("device: cpu, ")) << plain.err;
  EXPECT_NE(plain.err.find("\ndrafting: none, as told\n"), std::string::npos) << plain.err;
  const Result result = generate({"-p", "hi", "-n", "8", "--temp", "0", "--logit-bias", kEndless});
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 4) << result.err;
  EXPECT_NE(result.err.find("no assistant was found for the model"), std::string::npos) << result.err;
  for (const char* part : {"prompt ", "tok/s", "GB/s", "% of", "first token"}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
  EXPECT_EQ(generate({"-p", "hi", "-n", "2", "-q"}).err, "");
}

TEST_F(Generate, stops_cleanly_on_an_interrupt) {
  const TemporaryFolder output;
  const pid_t child = test::start({"generate", "-m", model(), "-t", "1", "-p", "hi", "-n", "4000", "--temp",
                                   "0", "--logit-bias", "270=1000"},
                                  "", output.path());
  // Interrupt as soon as text flows; loading takes a moment, more of it under a sanitizer.
  for (int i = 0; i < 30000 && test::read_file(output.path("out.txt")).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGINT);
  const Result result = test::finish(child, output.path());
  EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_LT(result.out.size(), 4000u);
  EXPECT_NE(result.err.find("tok/s"), std::string::npos) << result.err;
}

TEST_F(Generate, refuses_wrong_requests_before_it_loads_anything) {
  expect_refusal({"-p", "hi", "--image", "cat.png"}, 1, "reads text alone");
  expect_refusal({"-p", "hi", "-f", "x"}, 1, "given twice");
  expect_refusal({"-p", "hi", "-n", "0"}, 1, "--max-tokens must be a whole number from 1 to");
  expect_refusal({"-p", "hi", "-n", "99999999999999"}, 1, "--max-tokens");
  expect_refusal({"-p", "hi", "--threads", "0"}, 1, "--threads");
  expect_refusal({"-p", "hi", "--temp", "nan"}, 1, "--temp must be a number from 0 to 100");
  expect_refusal({"-p", "hi", "--top-p", "1.5"}, 1, "--top-p");
  expect_refusal({"-p", "hi", "--logit-bias", "512=1"}, 1, "logit_bias");
  expect_refusal({"-p", "hi", "--stop", ""}, 1, "--stop must not be empty");
  expect_refusal({"-p", "hi", "--logprobs", "3"}, 1, "--json");
  expect_refusal({"-p", "hi", "-c", "16777216"}, 1, "--context must be a whole number from 1 to");
  expect_refusal({"-p", "hi", "-c", "4"}, 1, "leaves no room");
  expect_refusal({"--ids", "-p", "9999"}, 1, "9999");
  expect_refusal({"--ids", "-p", ""}, 1, "the prompt is empty");
  expect_refusal({"--raw", "--system", "x", "-p", "hi"}, 1, "--system");
  expect_refusal({"--device", "cpu", "--activations", "11", "-p", "hi"}, 1, "--activations 11 is for GPUs");
}

TEST_F(Generate, names_the_missing_tokenizer) {
  std::filesystem::create_directories(folder_->path("bare"));
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(model() + "/" + file, folder_->path("bare/") + file);
  }
  const Result result = run({"generate", "-m", folder_->path("bare"), "-p", "hi"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("tokenizer.json"), std::string::npos) << result.err;
}

TEST(Statistics, counts_decoding_from_the_second_token_on) {
  session::Report report;
  report.stats.prompt_tokens = 100;
  report.stats.output_tokens = 11;
  report.stats.decoded_tokens = 10;
  report.stats.first_token_s = 0.6;
  report.stats.prompt_s = 0.5;
  report.stats.decode_s = 2;
  report.bytes_per_pass = 2e9;
  report.read_bandwidth = 20e9;
  EXPECT_DOUBLE_EQ(report.prompt_rate(), 200);
  EXPECT_DOUBLE_EQ(report.decode_rate(), 5);
  EXPECT_EQ(statistics_text(report),
            "prompt 100 tokens, 200 tok/s | answer 11 tokens, 5.00 tok/s, 10.0 GB/s, 50 % of 20.0 GB/s | "
            "first token 0.60 s");
}

TEST(Statistics, says_nothing_about_what_did_not_happen) {
  session::Report report;
  report.stats.prompt_tokens = 3;
  EXPECT_EQ(statistics_text(report), "prompt 3 tokens | answer 0 tokens");
}

}  // namespace
}  // namespace slip::cli
