#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "text/detokenizer.h"
#include "text/rendered.h"
#include "text/tokenizer_file.h"

namespace slip::text {
namespace {

// Ids should be dense; a few may be missing. The bound keeps one absurd id from asking for gigabytes.
constexpr size_t kMaxHoles = 4096;
// Gemma's file holds 32 MB.
constexpr size_t kLongestFile = size_t{256} << 20;

Vocabulary build_vocabulary(const TokenizerFile& file, const std::string& name) {
  int largest = 0;
  for (const int id : file.ids) largest = std::max(largest, id);
  for (const AddedToken& token : file.added) largest = std::max(largest, token.id);
  const size_t entries = file.ids.size() + file.added.size();
  if (static_cast<size_t>(largest) >= entries + kMaxHoles) {
    fail_file("{}: has a token with the id {}, out of range for a vocabulary of {} tokens", name, largest,
              entries);
  }
  Vocabulary vocabulary(largest + 1);
  const auto refuse = [&](int id, std::string_view piece) {
    fail_file("{}: gives the id {} to {}, but that id or that token is already taken", name, id,
              in_quotes(piece));
  };
  for (size_t i = 0; i < file.ids.size(); ++i) {
    const std::string_view piece = file.pieces[i];
    const int id = file.ids[i];
    if (piece.empty()) fail_file("{}: the token of id {} has an empty text", name, id);
    if (vocabulary.find(piece) != Vocabulary::kNone || !vocabulary.add(id, piece)) refuse(id, piece);
  }
  for (const AddedToken& token : file.added) {
    if (!vocabulary.add(token.id, token.content)) refuse(token.id, token.content);
    if (token.special) vocabulary.mark_special(token.id);
  }
  return vocabulary;
}

// Merges that would spell out a special token are left out: with special tokens wanted they never come to
// work, because the matcher takes such a text first, and without they must not.
MergeTable build_merges(const TokenizerFile& file, const Vocabulary& vocabulary, const std::string& name) {
  const size_t count = file.merges.size() / 2;
  MergeTable table(count);
  std::string joined;
  const auto find = [&](std::string_view piece, size_t rank) {
    const int id = vocabulary.find(piece);
    if (id == Vocabulary::kNone) {
      fail_file("{}: merge {} names the token {}, which is not in the vocabulary", name, rank,
                in_quotes(piece));
    }
    return id;
  };
  for (size_t rank = 0; rank < count; ++rank) {
    const std::string_view left = file.merges[2 * rank];
    const std::string_view right = file.merges[2 * rank + 1];
    joined.assign(left).append(right);
    const int id = find(joined, rank);
    const int left_id = find(left, rank);
    const int right_id = find(right, rank);
    if (vocabulary.is_special(id)) continue;
    table.add(left_id, right_id, {.rank = static_cast<uint32_t>(rank), .id = id});
  }
  return table;
}

std::string with_space_marks(std::string_view text) {
  std::string marked;
  marked.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      marked += "\xE2\x96\x81";
    } else {
      marked += c;
    }
  }
  return marked;
}

std::vector<TextRange> ranges_of_template(const Rendered& prompt) {
  std::vector<TextRange> ranges;
  size_t begin = 0;
  for (const Rendered::Span& span : prompt.spans) {
    if (span.origin == Origin::kTemplate) ranges.push_back({begin, span.end});
    begin = span.end;
  }
  return ranges;
}

/// The parts of `ranges` inside the stretch of `text` at `begin`, counted from there with spaces marked or
/// not.
std::vector<TextRange> ranges_within(std::span<const TextRange> ranges, std::string_view stretch,
                                     size_t begin, bool spaces_are_marked) {
  std::vector<TextRange> inside;
  size_t at = 0;      // in the stretch
  size_t longer = 0;  // how much marks have added up to there
  const auto place = [&](size_t offset) {
    for (; at < offset; ++at) longer += spaces_are_marked && stretch[at] == ' ' ? 2 : 0;
    return offset + longer;
  };
  for (const TextRange& range : ranges) {
    if (range.end <= begin || range.begin >= begin + stretch.size()) continue;
    const size_t from = place(std::max(range.begin, begin) - begin);
    inside.push_back({from, place(std::min(range.end - begin, stretch.size()))});
  }
  return inside;
}

}  // namespace

Tokenizer Tokenizer::load(const std::string& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > kLongestFile) {
    fail_file("{}: is {} bytes long, more than any tokenizer.json", path, bytes.size());
  }
  return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& name) {
  return Tokenizer(parse_tokenizer_file(json, name), name);
}

Tokenizer::Tokenizer(TokenizerFile file, std::string name)
    : name_(std::move(name)), replaces_spaces_(file.replaces_spaces) {
  Vocabulary vocabulary = build_vocabulary(file, name_);
  MergeTable merges = build_merges(file, vocabulary, name_);
  BpeOptions options{.byte_fallback = file.byte_fallback, .fuse_unk = file.fuse_unk};
  if (!file.unk_token.empty()) {
    options.unk = vocabulary.find(file.unk_token);
    if (options.unk == Vocabulary::kNone) {
      fail_file("{}: names {} as its unknown token, which is not in the vocabulary", name_,
                in_quotes(file.unk_token));
    }
  }
  bpe_ = Bpe(std::move(vocabulary), std::move(merges), options);
  if (!bpe_.covers_all_text()) {
    fail_file("{}: has neither tokens for all 256 bytes nor an unknown token, so some texts have no tokens",
              name_);
  }
  for (AddedToken& token : file.added) {
    if (token.normalized && replaces_spaces_) token.content = with_space_marks(token.content);
    (token.normalized ? normalized_ : raw_).add(token);
  }
}

std::vector<int> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kLongestText) {
    fail_usage("a text of {} bytes is longer than the {} that can be encoded; shorten it", text.size(),
               kLongestText);
  }
  std::vector<int> ids;
  Bpe::Scratch scratch;
  SpecialsWanted specials{.anywhere = options.specials};
  std::vector<TextRange> ranges;
  if (options.origins != nullptr) {
    ranges = ranges_of_template(*options.origins);
    specials.only_in = ranges;
  }
  size_t from = 0;
  const auto plain_until = [&](size_t end) {
    const std::string_view stretch = text.substr(from, end - from);
    if (!specials.only_in || !normalized_.has_specials())
      return encode_plain(stretch, specials, scratch, ids);
    const std::vector<TextRange> inside = ranges_within(ranges, stretch, from, replaces_spaces_);
    encode_plain(stretch, {.anywhere = options.specials, .only_in = inside}, scratch, ids);
  };
  while (const auto match = raw_.find(text, from, specials)) {
    plain_until(match->begin);
    ids.push_back(match->id);
    from = match->end;
  }
  plain_until(text.size());
  if (options.add_bos) {
    const auto bos_id = bos();
    if (!bos_id) fail_file("{}: has no token <bos> to start a text with", name_);
    if (ids.empty() || ids.front() != *bos_id) ids.insert(ids.begin(), *bos_id);
  }
  return ids;
}

void Tokenizer::encode_plain(std::string_view text, const SpecialsWanted& specials, Bpe::Scratch& scratch,
                             std::vector<int>& out) const {
  if (text.empty()) return;
  std::string marked;
  if (replaces_spaces_) {
    marked = with_space_marks(text);
    text = marked;
  }
  size_t from = 0;
  while (const auto match = normalized_.find(text, from, specials)) {
    bpe_.encode(text.substr(from, match->begin - from), scratch, out);
    out.push_back(match->id);
    from = match->end;
  }
  bpe_.encode(text.substr(from), scratch, out);
}

std::string Tokenizer::decode(std::span<const int> ids, DecodeOptions options) const {
  StreamDecoder decoder(*this, options);
  std::string text;
  for (const int id : ids) decoder.feed(id, text);
  decoder.finish(text);
  return text;
}

std::optional<int> Tokenizer::id_of(std::string_view token) const {
  const int id = vocabulary().find(token);
  return id == Vocabulary::kNone ? std::nullopt : std::optional(id);
}

const std::string& Tokenizer::piece(int id) const {
  static const std::string empty;
  return vocabulary().contains(id) ? vocabulary().piece(id) : empty;
}

}  // namespace slip::text
