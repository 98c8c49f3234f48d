// StopMatcher: finds stop strings in text that arrives in pieces. Text that could be the beginning of a stop
// string is held back; what can no longer become one is passed on at once.
//
// The match is the one that ends first, and the longest of those that end together; the text is cut right
// before it. So the result does not depend on how the text was cut into pieces. Cost: constant per byte and
// stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace slip::engine {

class StopMatcher {
 public:
  /// None of the strings may be empty.
  explicit StopMatcher(std::vector<std::string> stops);

  /// Adds text and returns what has become certain, everything up to the match if there is one. The view
  /// lives until the next call. After a match nothing more comes out.
  std::string_view push(std::string_view text);
  /// The text ends here, or what follows is another text: returns what was held back, and looks anew.
  std::string_view flush();
  bool matched() const { return matched_; }

 private:
  // Searches one string in the manner of Knuth, Morris and Pratt: `length` bytes at the end of the text so
  // far are the beginning of it, and no longer beginning is.
  struct Search {
    std::string stop;
    std::vector<size_t> fallback;  // per length: the longest shorter beginning that is also its end
    size_t length = 0;
    void advance(char byte);
    bool complete() const { return length == stop.size(); }
  };

  std::vector<Search> searches_;
  std::string pending_;  // [0, released_) was returned by the last call, the rest is held back
  size_t released_ = 0;
  bool matched_ = false;
};

}  // namespace slip::engine
