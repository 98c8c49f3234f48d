// Damaged and foreign tokenizer files: each is refused with a sentence that names the file and the fault.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "text/golden_tokenizer.h"

namespace slip::text {
namespace {

using nlohmann::json;

json small_file() {
  return json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
    "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                                 {"type": "ByteFallback"}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "fuse_unk": true,
              "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3}, "merges": [["a", "b"]]}})");
}

std::string fault_of(const std::string& text) {
  try {
    Tokenizer::parse(text, "some/tokenizer.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadFile);
    EXPECT_TRUE(std::string_view(error.what()).starts_with("some/tokenizer.json: ")) << error.what();
    return error.what();
  }
  return "";
}

/// The fault after replacing the value at `pointer` in a good file.
std::string fault_with(const char* pointer, const char* value) {
  json file = small_file();
  file[json::json_pointer(pointer)] = json::parse(value);
  return fault_of(file.dump());
}

#define EXPECT_FAULT(fault, part) EXPECT_NE((fault).find(part), std::string::npos) << "got: " << (fault)

TEST(TokenizerFile, a_good_file_loads_also_with_null_or_sequenced_parts) {
  EXPECT_EQ(fault_of(small_file().dump()), "");
  EXPECT_EQ(fault_with("/decoder", "null"), "");
  EXPECT_EQ(fault_with("/added_tokens", "null"), "");
  EXPECT_EQ(fault_with("/model/merges", R"(["a b"])"), "");
  json file = small_file();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array({file["normalizer"]})}};
  EXPECT_EQ(fault_of(file.dump()), "");
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = nullptr;
  EXPECT_EQ(fault_of(file.dump()), "");
}

TEST(TokenizerFile, what_is_no_json_is_refused_with_the_place) {
  EXPECT_FAULT(fault_of(""), "not valid JSON");
  EXPECT_FAULT(fault_of(small_file().dump().substr(0, 100)), "not valid JSON at byte 10");
  EXPECT_FAULT(fault_of("{\"model\": \"\xFF\"}"), "not valid JSON");
  EXPECT_FAULT(fault_of("[]"), "has no model");
  EXPECT_FAULT(fault_of("3"), "has no model");
  EXPECT_FAULT(fault_of("{}"), "has no model");
  EXPECT_FAULT(fault_of(std::string(100000, '[')), "nested more than");
}

TEST(TokenizerFile, models_of_another_kind_are_refused) {
  EXPECT_FAULT(fault_with("/model/type", R"("WordPiece")"), "\"WordPiece\", not BPE");
  EXPECT_FAULT(fault_of(R"({"model":{"type":"Unigram","vocab":[["<unk>",0.0],["a",-1.5]]}})"),
               "\"Unigram\", not BPE");
  EXPECT_FAULT(fault_with("/model/ignore_merges", "true"), "ignore_merges");
  EXPECT_FAULT(fault_with("/model/continuing_subword_prefix", R"("##")"), "continuing_subword_prefix");
  EXPECT_FAULT(fault_with("/model/end_of_word_suffix", R"("</w>")"), "end_of_word_suffix");
  EXPECT_FAULT(fault_with("/model/dropout", "0.1"), "dropout");
  EXPECT_FAULT(fault_with("/model/byte_fallback", R"("yes")"), "byte_fallback is neither true nor false");
}

TEST(TokenizerFile, other_normalizers_pre_tokenizers_and_decoders_are_refused) {
  EXPECT_FAULT(fault_with("/normalizer", R"({"type":"NFC"})"), "normalizer of type NFC");
  EXPECT_FAULT(fault_with("/normalizer/pattern", R"({"Regex":"x"})"), "normalizer of type Replace");
  EXPECT_FAULT(fault_with("/normalizer/content", R"("_")"), "normalizer of type Replace");
  EXPECT_FAULT(fault_with("/normalizer", R"("NFC")"), "normalizer of type unknown");
  EXPECT_FAULT(fault_with("/normalizer", "null"), "pre_tokenizer of type Split");
  EXPECT_FAULT(fault_with("/pre_tokenizer", R"({"type":"ByteLevel"})"), "pre_tokenizer of type ByteLevel");
  EXPECT_FAULT(fault_with("/pre_tokenizer/invert", "true"), "pre_tokenizer of type Split");
  EXPECT_FAULT(fault_with("/decoder", R"({"type":"Metaspace"})"), "decoder of type Metaspace");
  EXPECT_FAULT(fault_with("/decoder/decoders/1", R"({"type":"Strip"})"), "decoder of type Strip");
}

TEST(TokenizerFile, a_vocabulary_that_is_missing_or_wrong_is_refused) {
  EXPECT_FAULT(fault_with("/model/vocab", "{}"), "no model.vocab");
  EXPECT_FAULT(fault_with("/model/vocab", "[]"), "no model.vocab");
  EXPECT_FAULT(fault_with("/model/vocab", R"({"a":"x"})"), "token \"a\" has no number");
  EXPECT_FAULT(fault_with("/model/vocab", R"({"a":1.5})"), "token \"a\" has no number");
  EXPECT_FAULT(fault_with("/model/vocab", R"({"a":{"b":1}})"), "token \"a\" has no number");
  EXPECT_FAULT(fault_with("/model/vocab/ab", "-3"), "\"ab\" has the id -3, which is out of range");
  EXPECT_FAULT(fault_with("/model/vocab/ab", "99999999999"), "\"ab\" has the id 99999999999");
  EXPECT_FAULT(fault_with("/model/vocab/ab", "2000000000"), "id 2000000000, out of range");
  EXPECT_FAULT(fault_with("/model/vocab/ab", "2"), "already taken");
  EXPECT_FAULT(fault_with("/model/vocab", R"({"":1})"), "empty text");
  EXPECT_FAULT(fault_of(R"({"model":{"type":"BPE","vocab":{"a":0,"a":1}}})"), "gives the id 1 to \"a\"");
  EXPECT_FAULT(fault_with("/model/unk_token", R"("<?>")"), "\"<?>\" as its unknown token");
  EXPECT_FAULT(fault_with("/model/unk_token", "null"),
               "neither tokens for all 256 bytes nor an unknown token");
  EXPECT_FAULT(fault_with("/model/unk_token", "7"), "unk_token is no text");
}

TEST(TokenizerFile, merges_that_name_unknown_tokens_or_are_no_pairs_are_refused) {
  EXPECT_FAULT(fault_with("/model/merges", R"([["a","z"]])"), "merge 0 names the token \"az\"");
  EXPECT_FAULT(fault_with("/model/merges", R"([["a","b"],["","ab"]])"), "merge 1 names the token \"\"");
  EXPECT_FAULT(fault_with("/model/merges", R"([["a","b"],["a"]])"), "merge 1 has fewer than two parts");
  EXPECT_FAULT(fault_with("/model/merges", R"([["a","b","a"]])"), "has more than two parts");
  EXPECT_FAULT(fault_with("/model/merges", R"(["ab"])"), "merge 0 has fewer than two parts");
  EXPECT_FAULT(fault_with("/model/merges", R"(["a b a"])"), "merge 0 has more than two parts");
  EXPECT_FAULT(fault_with("/model/merges", "[7]"), "merge 0 is no list of texts");
  EXPECT_FAULT(fault_with("/model/merges", R"([["a",["b"]]])"), "is no list of texts");
}

TEST(TokenizerFile, added_tokens_that_clash_or_lack_something_are_refused) {
  const auto fault = [](const char* entry) { return fault_with("/added_tokens/1", entry); };
  EXPECT_EQ(fault(R"({"id":4,"content":"<x>"})"), "");
  EXPECT_FAULT(fault(R"({"id":1,"content":"<x>"})"), "gives the id 1 to \"<x>\"");
  EXPECT_FAULT(fault(R"({"id":4,"content":"ab"})"), "gives the id 4 to \"ab\"");
  EXPECT_FAULT(fault(R"({"id":4})"), "added token 1 has no text");
  EXPECT_FAULT(fault(R"({"id":4,"content":""})"), "added token 1 has no text");
  EXPECT_FAULT(fault(R"({"content":"<x>"})"), "added token \"<x>\" has an id that is missing");
  EXPECT_FAULT(fault(R"({"id":-4,"content":"<x>"})"), "out of range");
  EXPECT_FAULT(fault(R"({"id":4000000000,"content":"<x>"})"), "out of range");
  EXPECT_FAULT(fault(R"({"id":4,"content":"<x>","special":1})"), "special is neither true nor false");
  EXPECT_FAULT(fault("7"), "added token 1 has no text");
  EXPECT_FAULT(fault_with("/added_tokens", "{}"), "added_tokens is no list");
}

TEST(TokenizerFile, a_missing_file_is_named) {
  try {
    Tokenizer::load("/nonexistent/tokenizer.json");
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_FAULT(std::string(error.what()), "/nonexistent/tokenizer.json");
  }
}

TEST(TokenizerFile, a_damaged_file_is_refused_or_loads_but_does_no_harm) {
  std::mt19937 random(11);
  const std::string good = small_file().dump();
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (unsigned i = 0; i <= random() % 3; ++i) {
      const size_t at = random() % bad.size();
      switch (random() % 3) {
        case 0: bad[at] = static_cast<char>(random()); break;
        case 1: bad.erase(at, random() % 8); break;
        default: bad.insert(at, good, random() % good.size(), random() % 12);
      }
    }
    try {
      const Tokenizer tokenizer = Tokenizer::parse(bad, "damaged");
      tokenizer.decode(tokenizer.encode("ab <unk> \xFF"));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace slip::text
