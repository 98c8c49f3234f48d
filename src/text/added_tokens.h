// Added tokens: texts that become one token before BPE sees them, such as <bos> and <|turn>. The matcher
// walks a trie of them along the text and takes the leftmost match, the longest among those that start there,
// as Hugging Face does. Tokens marked `normalized` are matched after spaces have become U+2581, the others on
// the raw text, so a tokenizer holds one matcher for each kind.
//
// Cost: O(text x longest token) at worst; in practice one table look per byte, as few bytes start a token.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slip::text {

struct AddedToken {
  int id = 0;
  std::string content;
  bool special = false;      // steers the model: only matched where special tokens are wanted
  bool normalized = false;   // matched on normalised text
  bool lstrip = false;       // takes the ASCII white space before it along
  bool rstrip = false;       // and after it
  bool single_word = false;  // only where no letter, digit, underscore or non-ASCII character touches it
};

/// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin, end;
};

/// Where special tokens are looked for: nowhere, everywhere, or only inside some ranges, which come in order
/// and do not touch each other. A token must lie in one of them with all its bytes.
struct SpecialsWanted {
  bool anywhere = true;
  std::optional<std::span<const TextRange>> only_in = std::nullopt;
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher();
  /// `token.content` must not be empty.
  void add(const AddedToken& token);

  struct Match {
    size_t begin, end;  // in the text, white space taken along included
    int id;
  };
  /// The next match at or after `from`. Special tokens that are not wanted are passed over.
  std::optional<Match> find(std::string_view text, size_t from, const SpecialsWanted& specials) const;
  bool has_specials() const { return has_specials_; }

 private:
  struct Node {
    uint8_t byte;
    int32_t token = -1;    // index into tokens_ of the token that ends here
    int32_t child = -1;    // first child
    int32_t sibling = -1;  // next child of the same parent
  };
  int child(int node, uint8_t byte) const;
  const AddedToken* longest(std::string_view text, size_t at, const SpecialsWanted& specials) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<int32_t, 256> first_;  // node of each first byte, -1 when no token starts so
  bool has_specials_ = false;
};

}  // namespace slip::text
