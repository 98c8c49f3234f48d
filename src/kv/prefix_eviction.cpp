// What a prefix tree gives up when a page is wanted, and in which order.
#include <algorithm>
#include <limits>

#include "kv/prefix_tree.h"

namespace slip::kv {

bool PrefixTree::make_room(PageClass wanted) {
  while (pool_.free_pages(wanted) == 0) {
    if (!give_up_other_windows(wanted) && !give_up_least_used(wanted)) return false;
  }
  return true;
}

/// The least recently used whose page nobody else uses. Pages of running sequences are passed over: they are among
/// the most recently used, and a sequence has a window of them.
PrefixTree::Node* PrefixTree::coldest_sliding(const Order& order, int cache) const {
  for (const ByUse& place : order) {
    if (would_free(*place.node->kept[static_cast<size_t>(cache)].sliding)) return place.node;
  }
  return nullptr;
}

int PrefixTree::cache_of_sliding(PageClass wanted) const {
  for (int cache = 0; cache < cache_count(); ++cache) {
    if (sliding_[static_cast<size_t>(cache)].page_class == wanted) return cache;
  }
  return -1;
}

/// A sliding page that ends at no boundary, of the class wanted if there is one.
bool PrefixTree::give_up_other_windows(PageClass wanted) {
  const int own = std::max(0, cache_of_sliding(wanted));
  for (int i = 0; i < cache_count(); ++i) {
    const int cache = (own + i) % cache_count();
    Node* node = coldest_sliding(sliding_[static_cast<size_t>(cache)].others, cache);
    if (node == nullptr) continue;
    give_up_window(*node, cache);
    return true;
  }
  return false;
}

/// Of what a conversation comes back to, whatever was used longest ago. A sliding page is had for a window, or, where
/// none is left, for a whole slab of something else; a full page for a leaf or a window, whichever is older.
bool PrefixTree::give_up_least_used(PageClass wanted) {
  const int own = cache_of_sliding(wanted);
  if (own >= 0) {
    if (Node* window = coldest_sliding(sliding_[static_cast<size_t>(own)].boundaries, own)) {
      give_up_window(*window, own);
      return true;
    }
    if (const int slab = coldest_slab(wanted); slab >= 0) {
      give_up_slab(slab);
      return true;
    }
  }
  Node* leaf = leaves_.empty() ? nullptr : leaves_.begin()->node;
  for (int cache = 0; cache < cache_count(); ++cache) {
    Node* window = coldest_sliding(sliding_[static_cast<size_t>(cache)].boundaries, cache);
    if (window == nullptr) continue;
    if (leaf != nullptr && window->kept[static_cast<size_t>(cache)].sliding_used >= leaf->used) continue;
    give_up_window(*window, cache);
    return true;
  }
  if (leaf == nullptr) return false;
  remove_last_page(*leaf);
  return true;
}

void PrefixTree::give_up_window(Node& node, int cache) {
  drop_sliding(node, cache);
  ++evicted_windows_;
}

/// A leaf, and the units before it in its page, as far as nothing else follows them and they were not used since: so
/// that a page comes free.
void PrefixTree::remove_last_page(Node& leaf) {
  const uint64_t used = leaf.used;
  for (Node* node = &leaf;;) {
    Node* parent = node->parent;
    const bool page_begins = node->depth % kUnitsPerPage == 0;
    remove(*node);
    ++evicted_units_;
    if (page_begins || !parent->is_listed || parent->used > used) return;
    node = parent;
  }
}

/// Whether units that a running sequence goes on from would be lost with a slab of full pages. Rare: the sequence
/// computed the same positions in pages of its own.
bool PrefixTree::has_pins(int slab) const {
  for (const PageNodes& page : held_[static_cast<size_t>(slab)]) {
    for (const Node* node : page.nodes) {
      if (node == nullptr || node->pins == 0) continue;
      const Page* full = node->kept[static_cast<size_t>(page.cache)].full;
      if (full != nullptr && full->slab() == slab) return true;
    }
  }
  return false;
}

/// Of another class than the one wanted, which would only lose more than a page; -1 = none.
int PrefixTree::coldest_slab(PageClass wanted) const {
  using Place = std::pair<uint64_t, int>;  // ordered by use
  for (Place before = {0, -1};;) {
    constexpr Place kNone = {std::numeric_limits<uint64_t>::max(), 0};
    Place coldest = kNone;
    for (int slab = 0; slab < static_cast<int>(held_.size()); ++slab) {
      const Place place = {slab_used_[static_cast<size_t>(slab)], slab};
      if (place <= before || place >= coldest || pool_.slab_class(slab) == wanted) continue;
      if (pool_.slab_live(slab) > 0 && pool_.slab_held_only(slab) == pool_.slab_live(slab)) coldest = place;
    }
    if (coldest == kNone) return -1;
    if (!has_pins(coldest.second)) return coldest.second;
    before = coldest;
  }
}

void PrefixTree::give_up_slab(int slab) {
  const size_t before = nodes_;
  for (size_t place = 0; place < held_[static_cast<size_t>(slab)].size(); ++place) {
    for (int unit = 0; unit < kUnitsPerPage; ++unit) {
      const PageNodes& page = held_[static_cast<size_t>(slab)][place];
      Node* node = page.nodes[static_cast<size_t>(unit)];
      if (node == nullptr) continue;
      const Page* sliding = node->kept[static_cast<size_t>(page.cache)].sliding;
      if (sliding != nullptr && sliding->slab() == slab) {
        give_up_window(*node, page.cache);
      } else {
        remove_with_children(*node);
      }
    }
  }
  evicted_units_ += static_cast<int64_t>(before - nodes_);
}

}  // namespace slip::kv
