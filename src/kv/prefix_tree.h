// PrefixTree: the units a prefix cache knows, as a tree per salt, and the pages they refer to. A node is a unit of
// kHashUnit positions after everything on its path from the root; it refers to the full page and, while it is kept, to
// the sliding page that hold its end, of every cache. Such a page also holds the positions before it in the page.
//
// What goes when memory is short (make_room): sliding pages that end at no boundary first, then the least recently
// used of leaves and of boundaries' windows, until the class of page asked for has one. Paths of running sequences are
// pinned: their nodes stay, which costs nothing, as the sequences use the pages.
//
// Cost: a step along a path is a look into a hash table; a page given up costs a few operations on ordered sets. Only
// where a slab must be emptied for another class of page every slab is looked at.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/cache.h"
#include "kv/prefix_unit.h"

namespace slip::kv {

class PrefixTree {
 public:
  static constexpr int kMostCaches = 3;  // a model and draft networks that keep a cache
  static constexpr int kUnitsPerPage = kPagePositions / kHashUnit;
  static_assert(kPagePositions % kHashUnit == 0);

  struct Node {
    /// Of one cache.
    struct Kept {
      Page* full = nullptr;
      Page* sliding = nullptr;
      bool boundary = false;  // the sliding page belongs to a window that ends at one
      uint64_t sliding_used = 0;
    };
    PageKey key;
    Unit unit;
    int depth = -1;  // number of the unit; -1 = a root
    Node* parent = nullptr;
    Node *first_child = nullptr, *before = nullptr, *after = nullptr;  // children of one parent
    std::unique_ptr<Node> same_key;
    int pins = 0;            // chains that end here or further down
    bool is_listed = false;  // as a leaf that may go
    uint64_t used = 0, number = 0;
    Salt salt;  // of a root
    std::array<Kept, kMostCaches> kept;
  };
  using Layouts = std::vector<const Layout*>;

  PrefixTree(PagePool& pool, std::string name_space, Layouts layouts, uint64_t key_mask);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  /// Null where nothing of the salt is there.
  Node* find_root(const Salt& salt) const;
  Node* make_root(const Salt& salt);
  /// The child that holds the unit behind `parent`'s; null = none.
  Node* find(const Node& parent, const Content& content) const;
  Node* add(Node& parent, const Content& content);

  /// In place of the one it has, if any.
  void keep_full(Node& node, int cache, Page* page);
  void keep_sliding(Node& node, int cache, Page* page);
  /// The sliding page stays with preference.
  void mark_boundary(Node& node, int cache);

  /// The path to the node, pinned once more; or once less. A root that nobody needs any more goes.
  void pin_path(Node& node);
  void unpin_path(Node& node);
  /// A node below one that the caller has pinned.
  void pin(Node& node);
  /// The path has been used just now.
  void touch_path(Node& node);
  void touch_sliding(Node& node, int cache);

  /// Whether nobody but prefix caches refers to a page.
  static bool would_free(const Page& page) { return page.held() == page.references(); }
  /// As PagePool::reclaim.
  bool make_room(PageClass wanted);
  /// Drops whatever is not pinned.
  void clear();

  int cache_count() const { return static_cast<int>(layouts_.size()); }
  const Layout& layout(int cache) const { return *layouts_[static_cast<size_t>(cache)]; }
  size_t nodes() const { return nodes_; }
  int64_t evicted_units() const { return evicted_units_; }
  int64_t evicted_windows() const { return evicted_windows_; }

 private:
  /// A node by when it was used.
  struct ByUse {
    uint64_t used, number;
    Node* node;
    bool operator<(const ByUse& other) const {
      return used != other.used ? used < other.used : number < other.number;
    }
  };
  using Order = std::set<ByUse>;
  /// The nodes that refer to a page, by their place in it.
  struct PageNodes {
    std::array<Node*, kUnitsPerPage> nodes = {};
    int cache = 0;
  };
  /// Of one cache, and the classes of its pages once there were some.
  struct Sliding {
    Order others, boundaries;  // nodes with a sliding page
    PageClass page_class;
  };

  PageKey key_after(const Node& parent, const Content& content) const;
  PageNodes& nodes_of(const Page& page);
  void keep(Node& node, int cache, Page* page);
  void let_go(Node& node, Page* page);
  Order& order_of(const Node& node, int cache);
  ByUse by_sliding_use(Node& node, int cache) const;
  void drop_sliding(Node& node, int cache);
  void update_leaf(Node& node);
  std::unique_ptr<Node>& owner_of(const Node& node);
  void remove(Node& leaf);
  void remove_root_if_idle(Node& root);
  void remove_with_children(Node& top);
  void remove_last_page(Node& leaf);

  // prefix_eviction.cpp
  Node* coldest_sliding(const Order& order, int cache) const;
  int cache_of_sliding(PageClass wanted) const;
  bool give_up_other_windows(PageClass wanted);
  bool give_up_least_used(PageClass wanted);
  void give_up_window(Node& node, int cache);
  bool has_pins(int slab) const;
  int coldest_slab(PageClass wanted) const;
  void give_up_slab(int slab);

  PagePool& pool_;
  const std::string name_space_;
  const Layouts layouts_;
  const uint64_t key_mask_;  // fewer bits in tests of collisions
  std::unordered_map<PageKey, std::unique_ptr<Node>, PageKeyHash> by_key_;
  std::map<std::pair<uint64_t, uint64_t>, std::unique_ptr<Node>> roots_;  // by salt
  std::vector<Sliding> sliding_;                                          // by cache
  Order leaves_;                                                          // that are not pinned
  std::vector<std::vector<PageNodes>> held_;                              // by slab and place in it
  std::vector<uint64_t> slab_used_;  // when a page of it was last used, or later
  uint64_t clock_ = 0, next_number_ = 0;
  size_t nodes_ = 0;
  int64_t evicted_units_ = 0, evicted_windows_ = 0;
};

}  // namespace slip::kv
