// Prompt: what a model is given, as segments: token ids, or rows that an encoder makes of a picture or a sound.
// Text that somebody typed is encoded as text wherever it lands; control tokens come from ids, from trusted raw
// text, or from the chat template.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "text/tokenizer.h"

namespace slip::session {

/// Rows that are no tokens.
struct Media {
  kv::MediaKey key = {};
  int rows = 0;
  enum class Span { kCausal, kBothWays };
  Span span = Span::kCausal;
  backend::SoftRowsHandle soft = nullptr;  // may be on their way (SoftRows::made())
};

/// Ids, or media.
struct Segment {
  std::vector<int> ids = {};
  std::optional<Media> media = {};
};

class Prompt {
 public:
  Prompt() = default;
  explicit Prompt(std::vector<int> ids) { add(std::move(ids)); }

  void add(std::vector<int> ids);
  void add(Media media);

  const std::vector<Segment>& segments() const { return segments_; }
  /// Positions it takes.
  size_t size() const;
  /// The reply goes on within a thought that the prompt has opened.
  bool in_thought = false;

  /// As the engine takes it: `placeholder` stands at the positions of media.
  void fill(engine::Request& request, int placeholder) const;

 private:
  std::vector<Segment> segments_;
};

/// Trusted text that goes to the model as it stands: control tokens spelled out in it are control tokens, unless
/// `parse_specials` is false, and <bos> stands in front.
struct RawOptions {
  bool parse_specials = true;
  bool add_bos = true;
};
Prompt raw_prompt(const text::Tokenizer& tokenizer, std::string_view text, const RawOptions& options = {});

/// Whether the reply goes on within a thought: Google's template of July 2026 opens one behind the answer of a tool.
bool ends_in_thought(const text::Tokenizer& tokenizer, std::span<const int> ids);

}  // namespace slip::session
