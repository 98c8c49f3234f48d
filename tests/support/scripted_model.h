// A model that says what a test wants. A synthetic model with --acceptance counts: token t is followed by
// t + 1. So a tokenizer that puts the pieces of a reply, control tokens included, behind the line break that
// ends a chat prompt makes it write that reply, as a trained model would, through the whole engine.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/program.h"

namespace slip::test {

using Script = std::vector<std::string>;

inline constexpr int kScriptVocab = 512;
inline constexpr int kScriptBegin = 301;  // the id of the first piece; "\n" is the token before it

/// The pieces of a reply with a thought, an answer, a tool call and an end.
inline Script thoughtful_script() {
  return {"<|channel>", "thought",   "<0x0A>", "deep\u2581", "water",
          "<channel|>", "The\u2581", "answer", "<turn|>"};
}

/// A token with so much text that a reply of some thousands overfills a terminal's buffer: nobody who reads
/// slowly meets its end.
inline std::string long_piece() {
  return std::string(250, 'g');
}

class ScriptedVocabulary {
 public:
  explicit ScriptedVocabulary(const Script& script) {
    put(kScriptBegin - 1, "\n");
    for (size_t i = 0; i < script.size(); ++i) put(kScriptBegin + static_cast<int>(i), script[i]);
    for (const char* special : kSpecials) add(special);
    for (int byte = 0; byte < 256; ++byte) {
      char piece[8];
      std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
      add(piece);
    }
    add("\u2581");
    add(long_piece());
    for (char letter = 'a'; letter <= 'z'; ++letter) add(std::string(1, letter));
    for (int id = 0; id < kScriptVocab; ++id) {
      if (!pieces_.contains(id)) put(id, "w" + std::to_string(id));
    }
  }
  int id(const std::string& piece) const { return ids_.at(piece); }

  std::string tokenizer_json() const {
    using nlohmann::json;
    json added = json::array();
    for (const char* special : kSpecials) {
      added.push_back({{"id", id(special)},
                       {"content", special},
                       {"special", true},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false}});
    }
    const auto replace = [](const char* from, const char* to) {
      return json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
    };
    return json{{"version", "1.0"},
                {"added_tokens", added},
                {"normalizer", replace(" ", "\u2581")},
                {"model",
                 {{"type", "BPE"},
                  {"unk_token", "<unk>"},
                  {"fuse_unk", true},
                  {"byte_fallback", true},
                  {"vocab", ids_},
                  {"merges", json::array()}}},
                {"decoder",
                 {{"type", "Sequence"},
                  {"decoders", {replace("\u2581", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}}}}
        .dump();
  }
  std::string generation_json() const {
    return nlohmann::json{{"eos_token_id", {id("<eos>"), id("<turn|>"), id("<|tool_response>")}}}.dump();
  }

 private:
  static constexpr const char* kSpecials[] = {
      "<pad>",           "<eos>",        "<bos>",        "<unk>",     "<|turn>",
      "<turn|>",         "<|channel>",   "<channel|>",   "<|think|>", "<|tool>",
      "<tool|>",         "<|tool_call>", "<tool_call|>", "<|\"|>",    "<|tool_response>",
      "<tool_response|>"};

  void put(int id, const std::string& piece) {
    pieces_[id] = piece;
    ids_[piece] = id;
  }
  void add(const std::string& piece) {
    if (ids_.contains(piece)) return;
    while (pieces_.contains(next_)) ++next_;
    put(next_, piece);
  }

  std::map<int, std::string> pieces_;
  std::map<std::string, int> ids_;
  int next_ = 0;
};

/// Writes the model to `folder`, and its assistant (right 7 times of 10) beside it.
inline void write_scripted_model(const std::string& folder, const Script& script) {
  const Result made =
      run({"synth", "--shape", "tiny-e2b", "--bits", "8", "--acceptance", "0.7", "--assistant", folder});
  ASSERT_EQ(made.code, 0) << made.err;
  const ScriptedVocabulary vocabulary(script);
  write_file(folder + "/tokenizer.json", vocabulary.tokenizer_json());
  write_file(folder + "/generation_config.json", vocabulary.generation_json());
}

}  // namespace slip::test
