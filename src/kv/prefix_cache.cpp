#include "kv/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace slip::kv {
namespace {

constexpr int kUnitsPerPage = PrefixTree::kUnitsPerPage;

/// The unit that stands for page number `page` of a prefix of `units`: the last one in it, whose page holds the
/// positions before it as well.
size_t unit_of(int64_t page, int units) {
  return static_cast<size_t>(std::min<int64_t>(page * kUnitsPerPage + kUnitsPerPage, units) - 1);
}

int whole_units(int positions) {
  return positions / kHashUnit;
}

}  // namespace

PrefixCache::Chain& PrefixCache::Chain::operator=(Chain&& other) noexcept {
  if (this == &other) return *this;
  end();
  tree_ = other.tree_;
  node_ = std::exchange(other.node_, nullptr);
  boundaries_ = std::move(other.boundaries_);
  return *this;
}

void PrefixCache::Chain::end() {
  boundaries_.clear();
  if (node_ == nullptr) return;
  Node* node = std::exchange(node_, nullptr);
  tree_->touch_path(*node);
  tree_->unpin_path(*node);
}

PrefixCache::PrefixCache(PagePool& pool, std::string name_space, Layouts layouts, uint64_t key_mask)
    : pool_(pool), tree_(pool, std::move(name_space), std::move(layouts), key_mask) {
  pool.reclaim = [this](PageClass wanted) { return tree_.make_room(wanted); };
}

PrefixCache::~PrefixCache() {
  pool_.reclaim = nullptr;
}

void PrefixCache::find_path(const PrefixQuery& query) const {
  path_.clear();
  const int most = whole_units(std::min<int>(query.most, static_cast<int>(query.content.tokens.size())));
  for (Node* node = tree_.find_root(query.salt); node != nullptr && std::ssize(path_) < most;) {
    node = tree_.find(*node, query.content);
    if (node != nullptr) path_.push_back(node);
  }
}

/// The most units, up to `units` of the path, of which one cache has the pages of a kind that it needs.
int PrefixCache::restorable_kind(int cache, bool sliding, int units) const {
  const Layout& layout = tree_.layout(cache);
  if ((sliding ? layout.sliding_page_bytes() : layout.full_page_bytes()) == 0) return units;
  const auto has = [&](size_t unit) {
    const Node::Kept& kept = path_[unit]->kept[static_cast<size_t>(cache)];
    return (sliding ? kept.sliding : kept.full) != nullptr;
  };
  // Of every page, how many whole pages in a row end with it.
  unbroken_.clear();
  for (int page = 0; page < units / kUnitsPerPage; ++page)
    unbroken_.push_back(has(unit_of(page, units)) ? 1 + (page > 0 ? unbroken_.back() : 0) : 0);
  for (; units > 0; --units) {
    const int64_t last = (units - 1) / kUnitsPerPage;
    const int64_t first = sliding ? layout.first_kept(int64_t{units} * kHashUnit) / kPagePositions : 0;
    const bool before = last == first || unbroken_[static_cast<size_t>(last - 1)] >= last - first;
    if (before && has(static_cast<size_t>(units - 1))) return units;
  }
  return 0;
}

int PrefixCache::restorable(unsigned caches, int units, MatchEnd& why) const {
  for (int asked = -1; asked != units;) {
    asked = units;
    for (int cache = 0; cache < tree_.cache_count(); ++cache) {
      if ((caches >> cache & 1) == 0) continue;
      for (const bool sliding : {false, true}) {
        const int less = restorable_kind(cache, sliding, units);
        if (less < units) why = sliding ? MatchEnd::kSlidingGone : MatchEnd::kDraftGone;
        units = less;
      }
    }
  }
  return units;
}

Match PrefixCache::match(const PrefixQuery& query) const {
  find_path(query);
  int units = static_cast<int>(path_.size());
  Match found{.matched = units * kHashUnit};
  MatchEnd end = units == whole_units(query.most) ? MatchEnd::kWholePrompt
                 : units == 0                     ? MatchEnd::kNothing
                                                  : MatchEnd::kTokensDiffer;
  for (const MediaSpan* across = nullptr;;) {
    units = restorable(query.caches, units, end);
    across = span_across(query.content.media, units * kHashUnit);
    if (across == nullptr) break;
    end = MatchEnd::kInsideImage;
    units = whole_units(across->first);
  }
  found.positions = units * kHashUnit;
  found.end = end;
  return found;
}

Match PrefixCache::adopt(Chain& chain, const PrefixQuery& query, std::span<Cache* const> caches) {
  SLIP_CHECK(static_cast<int>(caches.size()) == tree_.cache_count());
  chain.end();
  PrefixQuery asked = query;
  for (size_t i = 0; i < caches.size(); ++i) {
    if (caches[i] == nullptr) asked.caches &= ~(1u << i);
  }
  Match found = match(asked);
  counts_.asked += std::ssize(query.content.tokens);
  counts_.matched += found.matched;
  for (Match now = found;;) {
    const int units = now.positions / kHashUnit;
    Node* node = units == 0 ? tree_.make_root(query.salt) : path_[static_cast<size_t>(units - 1)];
    chain.tree_ = &tree_;
    chain.node_ = node;
    tree_.pin_path(*node);  // whoever makes room for a copy must not take these
    found.positions = now.positions;
    if (fill(units, caches)) break;
    chain.end();
    // Without a page for a copy: as many whole pages as there are.
    asked.most = (now.positions - 1) / kPagePositions * kPagePositions;
    now = match(asked);
  }
  counts_.restored += found.positions;
  for (Cache* cache : caches) {
    if (cache != nullptr && query.most > 0) cache->keep_until_trimmed();
  }
  return found;
}

/// The first units of path_ into empty caches.
bool PrefixCache::fill(int units, std::span<Cache* const> caches) {
  const int length = units * kHashUnit;
  for (size_t i = 0; i < caches.size(); ++i) {
    if (caches[i] == nullptr) continue;
    const Layout& layout = caches[i]->layout();
    const auto gather = [&](bool used, bool sliding, int64_t first, std::vector<Page*>& pages) {
      pages.clear();
      for (int64_t page = first; used && page < pages_for(length); ++page) {
        const Node::Kept& kept = path_[unit_of(page, units)]->kept[i];
        pages.push_back(sliding ? kept.sliding : kept.full);
        pool_.ref(pages.back());
      }
    };
    gather(layout.full_page_bytes() > 0, false, 0, full_[i]);
    gather(layout.sliding_page_bytes() > 0, true, layout.first_kept(length) / kPagePositions, sliding_[i]);
  }
  bool enough = true;
  for (size_t i = 0; i < caches.size(); ++i) {
    if (caches[i] == nullptr) continue;
    enough = enough && caches[i]->adopt({.length = length, .full = full_[i], .sliding = sliding_[i]});
  }
  for (size_t i = 0; i < caches.size(); ++i) {
    if (caches[i] == nullptr) continue;
    if (!enough) caches[i]->release();
    for (std::vector<Page*>* pages : {&full_[i], &sliding_[i]}) {
      for (Page* page : *pages) pool_.unref(page);
      pages->clear();
    }
    if (!enough) continue;
    for (int64_t unit = tree_.layout(static_cast<int>(i)).first_kept(length) / kHashUnit; unit < units;
         ++unit)
      tree_.touch_sliding(*path_[static_cast<size_t>(unit)], static_cast<int>(i));
  }
  if (enough && units > 0) tree_.touch_path(*path_[static_cast<size_t>(units - 1)]);
  return enough;
}

void PrefixCache::extend(Chain& chain, const Content& content, std::span<Cache* const> caches, int upto) {
  SLIP_CHECK(chain.node_ != nullptr && static_cast<int>(caches.size()) == tree_.cache_count());
  for (const Cache* cache : caches) {
    if (cache != nullptr) upto = std::min(upto, cache->length());
  }
  while (chain.position() + kHashUnit <= upto) {
    Node* node = tree_.find(*chain.node_, content);
    if (node == nullptr) node = tree_.add(*chain.node_, content);
    tree_.pin(*node);
    chain.node_ = node;
    for (size_t i = 0; i < caches.size(); ++i) {
      if (caches[i] != nullptr) take_pages(*node, *caches[i], static_cast<int>(i));
    }
    for (const int boundary : chain.boundaries_) mark(*node, boundary);
    std::erase_if(chain.boundaries_, [&](int boundary) { return boundary < chain.position() + kHashUnit; });
  }
  for (Cache* cache : caches) {
    if (cache == nullptr) continue;
    cache->share_up_to(chain.position());
    cache->trim();
  }
}

/// Those that the unit has not yet, or no more. And of two full pages with the same content, one of which only the
/// unit refers to, the one that is in use: so the other comes free.
void PrefixCache::take_pages(Node& node, Cache& cache, int index) {
  using model::LayerKind;
  const int64_t number = node.depth / kUnitsPerPage;
  Node::Kept& kept = node.kept[static_cast<size_t>(index)];
  const auto there = [&](LayerKind kind) {
    return number >= cache.first_page(kind) && number < cache.end_page(kind);
  };
  if (there(LayerKind::kFull)) {
    Page* own = cache.page(LayerKind::kFull, number);
    if (kept.full == nullptr || (kept.full != own && PrefixTree::would_free(*kept.full)))
      tree_.keep_full(node, index, own);
  }
  if (kept.sliding == nullptr && there(LayerKind::kSliding))
    tree_.keep_sliding(node, index, cache.page(LayerKind::kSliding, number));
}

/// If the unit lies in the window before the boundary, or before one unit earlier.
void PrefixCache::mark(Node& node, int boundary) {
  const int end = whole_units(boundary) * kHashUnit, first = node.depth * kHashUnit;
  if (first + kHashUnit > end) return;
  for (int cache = 0; cache < tree_.cache_count(); ++cache) {
    if (first + kHashUnit > tree_.layout(cache).first_kept(std::max(0, end - kHashUnit)))
      tree_.mark_boundary(node, cache);
  }
}

void PrefixCache::mark_boundary(Chain& chain, int position) {
  SLIP_CHECK(chain.node_ != nullptr);
  int64_t first = position;  // of the longest window
  for (int cache = 0; cache < tree_.cache_count(); ++cache)
    first = std::min(first, tree_.layout(cache).first_kept(std::max(0, position - 2 * kHashUnit)));
  for (Node* node = chain.node_; node->parent != nullptr && (node->depth + 1) * kHashUnit > first;
       node = node->parent)
    mark(*node, position);
  if (position >= chain.position() + kHashUnit) chain.boundaries_.push_back(position);
}

PrefixCache::Counts PrefixCache::counts() const {
  Counts counts = counts_;
  counts.evicted_units = tree_.evicted_units();
  counts.evicted_windows = tree_.evicted_windows();
  counts.nodes = tree_.nodes();
  counts.bytes_held_only = pool_.bytes_held_only();
  return counts;
}

}  // namespace slip::kv
