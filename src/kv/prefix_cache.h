// PrefixCache: pages of sequences that are over, or still run, for later ones that begin alike. K and V of a prefix are
// a pure function of its tokens and media, so a hit changes no byte of the output.
//
// Pages are found by units of kHashUnit positions (prefix_tree.h). A prefix of L positions can be restored if every
// cache (the model's, and those of draft networks that keep one) still has its full pages up to L and its sliding
// pages from the window before L on. All pages before the last are referred to, the last one is copied if it is not
// full. Pages of two salts never meet, and a hit compares tokens and media, not only their keys.
//
// A sequence has a Chain: adopt() fills its empty caches, extend() registers what they have come to hold, in all of
// them; mark_boundary() says where a later prompt is likely to differ. Windows that end there, or one unit earlier, are
// kept with preference.
//
// It is the pool's reclaim hook: pages it alone refers to count as free. Used from the engine's thread. Cost: a match
// hashes the tokens it compares, 20,000 in about 0.1 ms; nothing is ever done for all units at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv/prefix_tree.h"

namespace slip::kv {

struct PrefixQuery {
  Salt salt;
  Content content;
  int most = 0;  // positions to use: at most one less than the prompt has, whose last row must be computed
  unsigned caches = ~0u;  // bit i: cache i is to be restored as well
};

/// Why a match has no more positions.
enum class MatchEnd {
  kNothing,       // not even the first unit is there
  kTokensDiffer,  // the next unit is not there
  kSlidingGone,   // it is there, but sliding pages of the window before it are not
  kDraftGone,     // it is there, but was computed without a draft network's cache that is wanted
  kInsideImage,   // rows that see each other would be cut
  kWholePrompt,   // nothing more was asked for
};

struct Match {
  int matched = 0;    // positions whose tokens are there
  int positions = 0;  // of these, the ones that can be restored
  MatchEnd end = MatchEnd::kNothing;
};

class PrefixCache {
 public:
  using Layouts = PrefixTree::Layouts;

  /// Where a sequence stands in the tree. Ends by itself; the prefix cache outlives it.
  class Chain {
   public:
    Chain() = default;
    ~Chain() { end(); }
    Chain(Chain&& other) noexcept { *this = std::move(other); }
    Chain& operator=(Chain&& other) noexcept;
    /// The sequence is over, or has lost its pages.
    void end();
    /// Positions that are registered.
    int position() const { return node_ == nullptr ? 0 : (node_->depth + 1) * kHashUnit; }

   private:
    friend class PrefixCache;
    PrefixTree* tree_ = nullptr;
    PrefixTree::Node* node_ = nullptr;  // the last unit
    std::vector<int> boundaries_;       // of units that are not there yet
  };

  struct Counts {
    int64_t asked = 0, matched = 0, restored = 0;    // positions of adopt()
    int64_t evicted_units = 0, evicted_windows = 0;  // the latter unit by unit
    size_t nodes = 0;
    size_t bytes_held_only = 0;  // pages that nobody else refers to
  };

  /// `name_space`: of the weights, drafters, storage and numerics, whatever K and V follow from beside the tokens.
  /// `layouts`: of every cache a sequence has, the model's first; they outlive this. `key_mask`: for tests of
  /// collisions.
  PrefixCache(PagePool& pool, std::string name_space, Layouts layouts, uint64_t key_mask = ~uint64_t{0});
  ~PrefixCache();

  Match match(const PrefixQuery& query) const;
  /// Begins a chain, and fills empty caches from the longest prefix that can be restored: `positions` says how much
  /// that was. 0 too where the pool has no page for a copy. `caches`: as the layouts; null = not wanted. From now on
  /// extend() gives their sliding pages back, not commit(), unless query.most is 0: whoever takes nothing may also
  /// extend nothing.
  Match adopt(Chain& chain, const PrefixQuery& query, std::span<Cache* const> caches);
  /// Registers the units that are complete in all caches, up to position `upto`; after every commit. The content is the
  /// sequence's whole history.
  void extend(Chain& chain, const Content& content, std::span<Cache* const> caches, int upto);
  /// The system prompt, a prompt or a reply ends at this position, which may still be ahead.
  void mark_boundary(Chain& chain, int position);

  Counts counts() const;
  /// Forgets everything that no chain goes on from.
  void clear() { tree_.clear(); }

 private:
  using Node = PrefixTree::Node;

  void find_path(const PrefixQuery& query) const;
  int restorable(unsigned caches, int units, MatchEnd& why) const;
  int restorable_kind(int cache, bool sliding, int units) const;
  bool fill(int units, std::span<Cache* const> caches);
  void take_pages(Node& node, Cache& cache, int index);
  void mark(Node& node, int boundary);

  PagePool& pool_;
  PrefixTree tree_;
  mutable std::vector<Node*> path_;                                                      // of the last match
  mutable std::vector<int> unbroken_;                                                    // scratch
  std::vector<Page*> full_[PrefixTree::kMostCaches], sliding_[PrefixTree::kMostCaches];  // scratch
  Counts counts_;
};

}  // namespace slip::kv
