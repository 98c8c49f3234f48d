#include "synth/synthetic_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

#include "base/check.h"
#include "base/error.h"
#include "embedded/chat_template.h"

namespace slip::synth {
namespace {

using Json = nlohmann::ordered_json;

struct ControlToken {
  std::string_view text;
  int id;  // in Gemma 4's vocabulary
};
constexpr ControlToken kControls[] = {{"<pad>", 0},
                                      {"<eos>", 1},
                                      {"<bos>", 2},
                                      {"<unk>", 3},
                                      {"<mask>", 4},
                                      {"<|tool>", 46},
                                      {"<tool|>", 47},
                                      {"<|tool_call>", 48},
                                      {"<tool_call|>", 49},
                                      {"<|tool_response>", 50},
                                      {"<tool_response|>", 51},
                                      {"<|\"|>", 52},
                                      {"<|think|>", 98},
                                      {"<|channel>", 100},
                                      {"<channel|>", 101},
                                      {"<|turn>", 105},
                                      {"<turn|>", 106},
                                      {"<|image>", 255999},
                                      {"<|audio>", 256000},
                                      {"<|image|>", 258880},
                                      {"<|audio|>", 258881},
                                      {"<image|>", 258882},
                                      {"<audio|>", 258883},
                                      {"<|video|>", 258884}};
constexpr int kBytes = 256;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
constexpr int kLeastVocab =
    static_cast<int>(std::size(kControls)) + kBytes + 1 + static_cast<int>(kLetters.size());

/// The words, shortest first, so that each comes after the one it is made of. The first letter changes
/// fastest, and neighbours differ where one looks first.
class Words {
 public:
  std::string next() {
    if (given_ == words_of_length_) {
      words_of_length_ *= choices(length_).size();
      ++length_;
      given_ = 0;
    }
    std::string word;
    uint64_t rest = given_++;
    for (int place = 0; place < length_; ++place) {
      const std::string_view letters = choices(place);
      word += letters[rest % letters.size()];
      rest /= letters.size();
    }
    return word;
  }

 private:
  static std::string_view choices(int place) {
    if (place == 0) return "BCDFGHJKLMNPQRSTVWXYZ";
    return place % 2 == 1 ? "aeiou" : "bcdfghjklmnpqrstvwxyz";
  }

  int length_ = 0;
  uint64_t words_of_length_ = 1;  // the empty one, which counts as given
  uint64_t given_ = 1;
};

struct Vocabulary {
  std::vector<std::string> pieces;  // by id
  std::vector<int> controls;        // ids, in the order of kControls
  std::vector<int> words;           // ids, shortest first
};

std::string byte_piece(int byte) {
  return fmt::format("<0x{:02X}>", byte);
}

Vocabulary make_vocabulary(int vocab) {
  if (vocab < kLeastVocab) {
    fail_usage("a vocabulary of {} tokens has no room for control tokens, bytes and letters; it takes {}",
               vocab, kLeastVocab);
  }
  Vocabulary made{
      .pieces = std::vector<std::string>(static_cast<size_t>(vocab)), .controls = {}, .words = {}};
  for (const ControlToken& token : kControls) {
    if (token.id < vocab) made.pieces[static_cast<size_t>(token.id)] = token.text;
  }
  int free = 0;
  const auto add = [&](std::string_view piece) {
    while (!made.pieces[static_cast<size_t>(free)].empty()) ++free;
    made.pieces[static_cast<size_t>(free)] = piece;
    return free;
  };
  for (const ControlToken& token : kControls) {
    made.controls.push_back(token.id < vocab ? token.id : add(token.text));
  }
  for (int byte = 0; byte < kBytes; ++byte) add(byte_piece(byte));
  add(kSpaceMark);
  for (const char& letter : kLetters) add({&letter, 1});
  Words words;
  while (true) {
    while (free < vocab && !made.pieces[static_cast<size_t>(free)].empty()) ++free;
    if (free == vocab) return made;
    made.words.push_back(add(words.next()));
  }
}

std::string as_json(std::string_view text) {
  return Json(text).dump();
}

std::string added_tokens(const Vocabulary& vocabulary) {
  std::vector<int> ids = vocabulary.controls;
  std::ranges::sort(ids);
  std::string list;
  for (const int id : ids) {
    list += fmt::format(R"({}{{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,)",
                        list.empty() ? "" : ",\n", id, as_json(vocabulary.pieces[static_cast<size_t>(id)]));
    list += R"("normalized":false,"special":true})";
  }
  return list;
}

// What every tokenizer of Gemma's kind says: how text becomes characters and comes back from them.
constexpr std::string_view kTextRules =
    R"("normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},
"pre_tokenizer":{"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false},
"post_processor":null,
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
{"type":"ByteFallback"},{"type":"Fuse"}]},
)";
constexpr std::string_view kModelRules = R"("type":"BPE","dropout":null,"unk_token":"<unk>",
"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":true,"byte_fallback":true,
"ignore_merges":false,
)";

std::string with_replaced(std::string_view text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  SLIP_CHECK(at != std::string_view::npos);
  return std::string(text.substr(0, at)).append(to).append(text.substr(at + from.size()));
}

}  // namespace

std::string synthetic_tokenizer_json(int vocab) {
  const Vocabulary vocabulary = make_vocabulary(vocab);
  std::string out;
  out.reserve(8192 + vocabulary.pieces.size() * 40);
  const auto write = std::back_inserter(out);
  fmt::format_to(write,
                 "{{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n\"added_tokens\":[\n{}],\n",
                 added_tokens(vocabulary));
  fmt::format_to(write, "{}\"model\":{{{}\"vocab\":{{", kTextRules, kModelRules);
  for (int id = 0; id < vocab; ++id) {
    fmt::format_to(write, "{}{}:{}", id == 0 ? "\n" : ",\n",
                   as_json(vocabulary.pieces[static_cast<size_t>(id)]), id);
  }
  out += "\n},\n\"merges\":[";
  std::string_view before = "\n";
  for (const int id : vocabulary.words) {
    const std::string_view word = vocabulary.pieces[static_cast<size_t>(id)];
    if (word.size() < 2) continue;
    fmt::format_to(write, "{}[\"{}\",\"{}\"]", before, word.substr(0, word.size() - 1), word.back());
    before = ",\n";
  }
  out += "\n]}}\n";
  return out;
}

std::string synthetic_tokenizer_config() {
  const Json media{{"image_token", "<|image|>"}, {"boi_token", "<|image>"}, {"eoi_token", "<image|>"},
                   {"audio_token", "<|audio|>"}, {"boa_token", "<|audio>"}, {"eoa_token", "<audio|>"},
                   {"video_token", "<|video|>"}};
  Json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"bos_token", "<bos>"},
              {"eos_token", "<eos>"},
              {"pad_token", "<pad>"},
              {"unk_token", "<unk>"},
              {"mask_token", "<mask>"},
              {"add_bos_token", false},  // the template writes it
              {"clean_up_tokenization_spaces", false}};
  config.update(media);
  config["extra_special_tokens"] = media;
  return config.dump(1) + "\n";
}

std::string synthetic_chat_template(bool empty_thought) {
  if (empty_thought) return std::string(embedded::chat_template);
  const std::string without =
      with_replaced(embedded::chat_template, "set empty_thought = '<|channel>thought\\n<channel|>'",
                    "set empty_thought = ''");
  return with_replaced(without, "with an empty thought block", "without an empty thought block");
}

std::vector<int> synthetic_ambiguous_ids(int vocab) {
  const Vocabulary vocabulary = make_vocabulary(vocab);
  std::unordered_map<std::string_view, int> id_of;
  for (int id = 0; id < vocab; ++id) id_of.emplace(vocabulary.pieces[static_cast<size_t>(id)], id);
  std::vector<int> ids;
  for (const char& letter : kLetters) ids.push_back(id_of.at({&letter, 1}));
  for (int byte = 0; byte < kBytes; ++byte) {
    const char character = static_cast<char>(byte);
    if (byte >= 0x80 || byte == ' ' || id_of.contains({&character, 1}))
      ids.push_back(id_of.at(byte_piece(byte)));
  }
  std::ranges::sort(ids);
  return ids;
}

}  // namespace slip::synth
