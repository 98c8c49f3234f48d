#include "text/tokenizer_file.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/tokenizer_json.h"

namespace slip::text {
namespace {

using nlohmann::json;

constexpr const char* kSpaceMark = "\xE2\x96\x81";  // U+2581
// Bounds of the matcher's memory. Gemma adds some thousand tokens of up to 31 characters.
constexpr size_t kMaxAdded = 65'536;
constexpr size_t kLongestAdded = 256;

const json& field(const json& object, const char* key) {
  static const json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

/// The `type` of a part of the file, for comparing and for messages.
std::string type_of(const json& part) {
  const json& type = field(part, "type");
  return type.is_string() ? type.get<std::string>() : "unknown";
}

bool flag(const json& object, const char* key, const std::string& where) {
  const json& value = field(object, key);
  if (value.is_null()) return false;
  if (!value.is_boolean()) fail_file("{}: {} is neither true nor false", where, key);
  return value.get<bool>();
}

bool replaces(const json& part, const char* from, const char* to) {
  return type_of(part) == "Replace" && field(field(part, "pattern"), "String") == from &&
         field(part, "content") == to;
}

/// Calls `check` on a part, or on each member when it is a Sequence of them (nested ones are not Gemma's).
template <typename Check>
void for_each_part(const json& part, const char* members, const Check& check) {
  if (part.is_null()) return;
  const json& list = field(part, members);
  if (type_of(part) != "Sequence" || !list.is_array()) return check(part);
  for (const json& member : list) check(member);
}

[[noreturn]] void refuse_part(const std::string& name, const char* what, const json& part,
                              const char* wanted) {
  fail_file(
      "{}: has a {} of type {} that Gemma's kind of tokenizer does not have ({}); use the tokenizer.json of "
      "a "
      "Gemma checkpoint",
      name, what, type_of(part), wanted);
}

bool read_normalizer(const json& root, const std::string& name) {
  bool replaces_spaces = false;
  for_each_part(field(root, "normalizer"), "normalizers", [&](const json& part) {
    if (!replaces(part, " ", kSpaceMark))
      refuse_part(name, "normalizer", part, "it replaces spaces by U+2581");
    replaces_spaces = true;
  });
  return replaces_spaces;
}

// Splitting at spaces does nothing once the normaliser has replaced them all, whatever its behaviour; without
// such a normaliser it would cut the text into words.
void check_pre_tokenizer(const json& root, bool replaces_spaces, const std::string& name) {
  for_each_part(field(root, "pre_tokenizer"), "pretokenizers", [&](const json& part) {
    const bool at_spaces = type_of(part) == "Split" && field(field(part, "pattern"), "String") == " ";
    if (!at_spaces || !replaces_spaces || flag(part, "invert", name)) {
      refuse_part(name, "pre_tokenizer", part, "it splits at spaces, of which the normalizer leaves none");
    }
  });
}

void check_decoder(const json& root, const std::string& name) {
  for_each_part(field(root, "decoder"), "decoders", [&](const json& part) {
    const std::string type = type_of(part);
    if (type == "ByteFallback" || type == "Fuse" || replaces(part, kSpaceMark, " ")) return;
    refuse_part(name, "decoder", part, "it replaces U+2581 by spaces and joins bytes");
  });
}

void read_model(const json& root, const std::string& name, TokenizerFile& file) {
  const json& model = field(root, "model");
  if (!model.is_object()) fail_file("{}: has no model; this is not a tokenizer.json", name);
  if (type_of(model) != "BPE") {
    fail_file("{}: holds a model of type {}, not BPE; use the tokenizer.json of a Gemma checkpoint", name,
              in_quotes(type_of(model)));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"}) {
    const json& value = field(model, key);
    if (!value.is_null() && value != "" && value != 0) {
      fail_file("{}: sets model.{}, which Gemma's kind of tokenizer does not", name, key);
    }
  }
  if (flag(model, "ignore_merges", name)) {
    fail_file("{}: sets model.ignore_merges, which Gemma's kind of tokenizer does not", name);
  }
  file.byte_fallback = flag(model, "byte_fallback", name);
  file.fuse_unk = flag(model, "fuse_unk", name);
  const json& unk = field(model, "unk_token");
  if (!unk.is_null() && !unk.is_string()) fail_file("{}: model.unk_token is no text", name);
  if (unk.is_string()) file.unk_token = unk.get<std::string>();
}

// The markers of Gemma's turns, tools and media are control tokens by their spelling too: a file that forgets
// to flag one as special must not let a user's text steer the model.
bool is_control(const std::string& content) {
  return content.starts_with("<|") || content.ends_with("|>");
}

AddedToken read_added_token(const json& entry, size_t index, const std::string& name) {
  const json& id = field(entry, "id");
  const json& content = field(entry, "content");
  if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
    fail_file("{}: added token {} has no text", name, index);
  }
  AddedToken token;
  token.content = content.get<std::string>();
  if (token.content.size() > kLongestAdded) {
    fail_file("{}: added token {} is longer than {} bytes", name, in_quotes(token.content), kLongestAdded);
  }
  if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) {
    fail_file("{}: added token {} has an id that is missing or out of range", name, in_quotes(token.content));
  }
  token.id = static_cast<int>(id.get<uint64_t>());
  const std::string where = fmt::format("{}: added token {}", name, in_quotes(token.content));
  token.special = flag(entry, "special", where) || is_control(token.content);
  token.normalized = flag(entry, "normalized", where);
  token.lstrip = flag(entry, "lstrip", where);
  token.rstrip = flag(entry, "rstrip", where);
  token.single_word = flag(entry, "single_word", where);
  return token;
}

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view text, const std::string& name) {
  TokenizerJson parsed = read_tokenizer_json(text, name);
  const json& root = parsed.rest;
  TokenizerFile file;
  read_model(root, name, file);
  file.replaces_spaces = read_normalizer(root, name);
  check_pre_tokenizer(root, file.replaces_spaces, name);
  check_decoder(root, name);

  const json& added = field(root, "added_tokens");
  if (!added.is_null() && !added.is_array()) fail_file("{}: added_tokens is no list", name);
  if (added.size() > kMaxAdded) fail_file("{}: lists more than {} added tokens", name, kMaxAdded);
  for (size_t i = 0; i < added.size(); ++i) file.added.push_back(read_added_token(added[i], i, name));

  if (parsed.pieces.size() == 0)
    fail_file("{}: has no model.vocab, or an empty one; download it again", name);
  file.pieces = std::move(parsed.pieces);
  file.ids = std::move(parsed.ids);
  file.merges = std::move(parsed.merges);
  return file;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 60;
  const std::string_view shown = text.substr(0, kLongest);
  const std::string tail = shown.size() < text.size() ? "..." : "";
  return json(shown).dump(-1, ' ', true, json::error_handler_t::replace) + tail;
}

}  // namespace slip::text
