#include "kv/prefix_tree.h"

#include <algorithm>
#include <utility>

namespace slip::kv {

PrefixTree::PrefixTree(PagePool& pool, std::string name_space, Layouts layouts, uint64_t key_mask)
    : pool_(pool),
      name_space_(std::move(name_space)),
      layouts_(std::move(layouts)),
      key_mask_(key_mask),
      sliding_(layouts_.size()) {
  SLIP_CHECK(!layouts_.empty() && layouts_.size() <= kMostCaches);
}

PrefixTree::~PrefixTree() {
  clear();
  SLIP_CHECK(nodes_ == 0);  // or a chain has outlived it
}

PrefixTree::Node* PrefixTree::find_root(const Salt& salt) const {
  const auto root = roots_.find({salt.high, salt.low});
  return root == roots_.end() ? nullptr : root->second.get();
}

PrefixTree::Node* PrefixTree::make_root(const Salt& salt) {
  std::unique_ptr<Node>& root = roots_[{salt.high, salt.low}];
  if (root == nullptr) {
    root = std::make_unique<Node>();
    root->salt = salt;
    root->key = root_key(name_space_, salt);
    root->number = next_number_++;
  }
  return root.get();
}

PageKey PrefixTree::key_after(const Node& parent, const Content& content) const {
  const PageKey key = unit_key(parent.key, content, (parent.depth + 1) * kHashUnit);
  return {.high = key.high & key_mask_, .low = key.low & key_mask_};
}

PrefixTree::Node* PrefixTree::find(const Node& parent, const Content& content) const {
  const auto first = by_key_.find(key_after(parent, content));
  if (first == by_key_.end()) return nullptr;
  for (Node* node = first->second.get(); node != nullptr; node = node->same_key.get()) {
    if (node->parent == &parent && holds(node->unit, content, (parent.depth + 1) * kHashUnit)) return node;
  }
  return nullptr;
}

PrefixTree::Node* PrefixTree::add(Node& parent, const Content& content) {
  auto made = std::make_unique<Node>();
  Node& node = *made;
  node.key = key_after(parent, content);
  node.depth = parent.depth + 1;
  node.unit = unit_at(content, node.depth * kHashUnit);
  node.number = next_number_++;
  node.used = ++clock_;
  node.parent = &parent;
  node.after = std::exchange(parent.first_child, &node);
  if (node.after != nullptr) node.after->before = &node;
  std::unique_ptr<Node>& same = by_key_[node.key];
  node.same_key = std::move(same);
  same = std::move(made);
  ++nodes_;
  update_leaf(parent);
  update_leaf(node);
  return &node;
}

PrefixTree::PageNodes& PrefixTree::nodes_of(const Page& page) {
  const auto slab = static_cast<size_t>(page.slab()), place = static_cast<size_t>(page.place());
  if (held_.size() <= slab) {
    held_.resize(slab + 1);
    slab_used_.resize(slab + 1);
  }
  if (held_[slab].size() <= place) held_[slab].resize(place + 1);
  return held_[slab][place];
}

void PrefixTree::keep(Node& node, int cache, Page* page) {
  PageNodes& nodes = nodes_of(*page);
  Node*& slot = nodes.nodes[static_cast<size_t>(node.depth % kUnitsPerPage)];
  SLIP_CHECK(slot == nullptr);
  slot = &node;
  nodes.cache = cache;
  slab_used_[static_cast<size_t>(page->slab())] = ++clock_;
  pool_.hold(page);
}

void PrefixTree::let_go(Node& node, Page* page) {
  nodes_of(*page).nodes[static_cast<size_t>(node.depth % kUnitsPerPage)] = nullptr;
  pool_.let_go(page);
}

void PrefixTree::keep_full(Node& node, int cache, Page* page) {
  Page* before = std::exchange(node.kept[static_cast<size_t>(cache)].full, page);
  if (before != nullptr) let_go(node, before);
  keep(node, cache, page);
}

void PrefixTree::keep_sliding(Node& node, int cache, Page* page) {
  Node::Kept& kept = node.kept[static_cast<size_t>(cache)];
  kept.sliding = page;
  keep(node, cache, page);
  kept.sliding_used = clock_;
  sliding_[static_cast<size_t>(cache)].page_class = page->page_class();
  order_of(node, cache).insert(by_sliding_use(node, cache));
}

PrefixTree::Order& PrefixTree::order_of(const Node& node, int cache) {
  Sliding& sliding = sliding_[static_cast<size_t>(cache)];
  return node.kept[static_cast<size_t>(cache)].boundary ? sliding.boundaries : sliding.others;
}
PrefixTree::ByUse PrefixTree::by_sliding_use(Node& node, int cache) const {
  return {.used = node.kept[static_cast<size_t>(cache)].sliding_used, .number = node.number, .node = &node};
}

void PrefixTree::drop_sliding(Node& node, int cache) {
  Node::Kept& kept = node.kept[static_cast<size_t>(cache)];
  order_of(node, cache).erase(by_sliding_use(node, cache));
  let_go(node, std::exchange(kept.sliding, nullptr));
}

void PrefixTree::mark_boundary(Node& node, int cache) {
  Node::Kept& kept = node.kept[static_cast<size_t>(cache)];
  if (kept.boundary) return;
  if (kept.sliding != nullptr) order_of(node, cache).erase(by_sliding_use(node, cache));
  kept.boundary = true;
  if (kept.sliding != nullptr) order_of(node, cache).insert(by_sliding_use(node, cache));
}

void PrefixTree::touch_sliding(Node& node, int cache) {
  Node::Kept& kept = node.kept[static_cast<size_t>(cache)];
  if (kept.sliding == nullptr) return;
  Order& order = order_of(node, cache);
  order.erase(by_sliding_use(node, cache));
  kept.sliding_used = ++clock_;
  order.insert(by_sliding_use(node, cache));
  slab_used_[static_cast<size_t>(kept.sliding->slab())] = clock_;
}

/// All of it at once, so that a unit is never given up for one that is younger only by being further down.
void PrefixTree::touch_path(Node& end) {
  ++clock_;
  for (Node* node = &end; node->parent != nullptr; node = node->parent) {
    if (node->is_listed) leaves_.erase({.used = node->used, .number = node->number, .node = node});
    node->used = clock_;
    if (node->is_listed) leaves_.insert({.used = node->used, .number = node->number, .node = node});
    for (const Node::Kept& kept : node->kept) {
      if (kept.full != nullptr) slab_used_[static_cast<size_t>(kept.full->slab())] = clock_;
    }
  }
}

void PrefixTree::update_leaf(Node& node) {
  const bool is_leaf = node.parent != nullptr && node.first_child == nullptr && node.pins == 0;
  if (is_leaf == node.is_listed) return;
  const ByUse place{.used = node.used, .number = node.number, .node = &node};
  node.is_listed = is_leaf;
  if (is_leaf) {
    leaves_.insert(place);
  } else {
    leaves_.erase(place);
  }
}

void PrefixTree::pin(Node& node) {
  ++node.pins;
  update_leaf(node);
}

void PrefixTree::pin_path(Node& end) {
  for (Node* node = &end; node != nullptr; node = node->parent) pin(*node);
}

void PrefixTree::unpin_path(Node& end) {
  Node* root = nullptr;
  for (Node* node = &end; node != nullptr; node = node->parent) {
    SLIP_CHECK(node->pins > 0);
    --node->pins;
    update_leaf(*node);
    root = node;
  }
  remove_root_if_idle(*root);
}

void PrefixTree::remove_root_if_idle(Node& root) {
  if (root.first_child == nullptr && root.pins == 0) roots_.erase({root.salt.high, root.salt.low});
}

std::unique_ptr<PrefixTree::Node>& PrefixTree::owner_of(const Node& node) {
  std::unique_ptr<Node>* owner = &by_key_.at(node.key);
  while (owner->get() != &node) owner = &(*owner)->same_key;
  return *owner;
}

void PrefixTree::remove(Node& leaf) {
  SLIP_CHECK(leaf.first_child == nullptr && leaf.pins == 0);
  for (int cache = 0; cache < cache_count(); ++cache) {
    Node::Kept& kept = leaf.kept[static_cast<size_t>(cache)];
    if (kept.full != nullptr) let_go(leaf, std::exchange(kept.full, nullptr));
    if (kept.sliding != nullptr) drop_sliding(leaf, cache);
  }
  leaves_.erase({.used = leaf.used, .number = leaf.number, .node = &leaf});
  Node& parent = *leaf.parent;
  (leaf.before != nullptr ? leaf.before->after : parent.first_child) = leaf.after;
  if (leaf.after != nullptr) leaf.after->before = leaf.before;
  const PageKey key = leaf.key;
  std::unique_ptr<Node>& owner = owner_of(leaf);
  owner = std::move(owner->same_key);
  if (by_key_.at(key) == nullptr) by_key_.erase(key);
  --nodes_;
  update_leaf(parent);
  if (parent.parent == nullptr) remove_root_if_idle(parent);
}

void PrefixTree::remove_with_children(Node& top) {
  for (Node* node = &top;;) {
    while (node->first_child != nullptr) node = node->first_child;
    Node* parent = node->parent;
    const bool last = node == &top;
    remove(*node);
    if (last) return;
    node = parent;
  }
}

void PrefixTree::clear() {
  while (!leaves_.empty()) remove(*leaves_.begin()->node);
  for (int cache = 0; cache < cache_count(); ++cache) {
    Sliding& sliding = sliding_[static_cast<size_t>(cache)];
    for (Order* order : {&sliding.others, &sliding.boundaries}) {
      while (!order->empty()) drop_sliding(*order->begin()->node, cache);
    }
  }
}

}  // namespace slip::kv
