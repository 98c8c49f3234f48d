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

class AddedTokenMatcher {
 public:
  AddedTokenMatcher();
  /// `token.content` must not be empty.
  void add(const AddedToken& token);

  struct Match {
    size_t begin, end;  // in the text, white space taken along included
    int id;
  };
  /// The next match at or after `from`. Special tokens are passed over when `specials` is false.
  std::optional<Match> find(std::string_view text, size_t from, bool specials) const;

 private:
  struct Node {
    uint8_t byte;
    int32_t token = -1;    // index into tokens_ of the token that ends here
    int32_t child = -1;    // first child
    int32_t sibling = -1;  // next child of the same parent
  };
  int child(int node, uint8_t byte) const;
  const AddedToken* longest(std::string_view text, size_t at, bool specials) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<int32_t, 256> first_;  // node of each first byte, -1 when no token starts so
};

}  // namespace slip::text
