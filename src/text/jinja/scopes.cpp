#include "text/jinja/scopes.h"

#include <algorithm>
#include <limits>

#include "text/jinja/failure.h"

namespace slip::text::jinja {
namespace {

constexpr std::string_view kOnDemand[] = {"loop", "caller", "varargs", "kwargs"};

}  // namespace

Scopes::Scopes(Heap& heap) : heap_(heap) {
  enter_function();
}

Scopes::Function* Scopes::new_function() {
  for (Scope* scope = current_; scope != nullptr; scope = scope->outer) {
    scope->function->layout->is_captured = true;
  }
  functions_.push_back({heap_.make<FrameLayout>()});
  return &functions_.back();
}

void Scopes::enter_function() {
  scopes_.push_back({current_, current_, new_function()});
  current_ = &scopes_.back();
}

void Scopes::become_function() {
  current_->function = new_function();
  FrameLayout& layout = *current_->function->layout;
  for (auto& [id, slot] : current_->names) slot.slot = static_cast<uint16_t>(layout.slots++);
}

Scopes::Inside Scopes::outside() {
  Inside inside = current_;
  current_ = inside->left_to;
  return inside;
}

void Scopes::enter_scope() {
  scopes_.push_back({current_, current_, current_->function});
  current_ = &scopes_.back();
}

void Scopes::enter_else() {
  scopes_.push_back({current_->outer, current_, current_->function});
  current_ = &scopes_.back();
}

void Scopes::enter_block() {
  Scope* left_to = current_;
  current_ = &scopes_.front();
  enter_function();
  current_->left_to = left_to;
  current_->is_block = true;
}

std::span<const uint16_t> Scopes::leave() {
  Scope& left = *current_;
  current_ = left.left_to;
  for (const std::string_view name : left.seen) {
    const auto found = ids_.find(name);
    // A loop has a `loop` of its own; a macro around another takes what that one takes, as in jinja2.
    const bool stored = name == "loop" && found != ids_.end() && left.names.contains(found->second);
    const bool known = std::find(current_->seen.begin(), current_->seen.end(), name) != current_->seen.end();
    if (!stored && !known) current_->seen.push_back(name);
  }
  return {heap_.copy(left.emptied.data(), left.emptied.size()), left.emptied.size()};
}

uint32_t Scopes::intern(std::string_view name) {
  const auto [at, is_new] = ids_.try_emplace(name, static_cast<uint32_t>(globals_.size()));
  if (is_new) globals_.push_back(name);
  return at->second;
}

uint16_t Scopes::declare(std::string_view name, Stored stored) {
  FrameLayout& layout = *current_->function->layout;
  const auto [at, is_new] =
      current_->names.try_emplace(intern(name), Slot{static_cast<uint16_t>(layout.slots), false});
  Slot& slot = at->second;
  if (is_new) {
    if (++layout.slots >= kNoSlot) raise(Fault::kMemoryError, "a template has too many variables");
    if (stored == Stored::kMaybe) current_->emptied.push_back(slot.slot);
  }
  slot.always = slot.always || stored == Stored::kAlways;
  return slot.slot;
}

void Scopes::store(std::string_view name, bool in_branch) {
  current_->first.try_emplace(intern(name), in_branch ? First::kRead : First::kStored);
}

Name* Scopes::read(std::string_view name, uint32_t offset) {
  Name* node = heap_.make<Name>();
  node->kind = ExpressionKind::kName;
  node->offset = offset;
  node->global = intern(name);
  reads_.push_back({node, current_});
  current_->first.try_emplace(node->global, First::kRead);
  const bool on_demand = std::find(std::begin(kOnDemand), std::end(kOnDemand), name) != std::end(kOnDemand);
  if (on_demand && !current_->names.contains(node->global) && !reads(name)) current_->seen.push_back(name);
  return node;
}

bool Scopes::reads(std::string_view name) const {
  return std::find(current_->seen.begin(), current_->seen.end(), name) != current_->seen.end();
}

bool Scopes::asks_context(uint32_t name, const Scope* scope) const {
  First first = First::kRead;
  for (; scope != nullptr; scope = scope->outer) {
    const auto found = scope->first.find(name);
    if (found != scope->first.end()) first = found->second;
    if (scope->is_block) break;
  }
  return first == First::kRead;
}

void Scopes::resolve() {
  std::vector<SlotReference> slots;
  for (const Read& read : reads_) {
    slots.clear();
    uint32_t hops = 0;
    for (const Scope* scope = read.scope; scope != nullptr; scope = scope->outer) {
      const auto found = scope->names.find(read.name->global);
      if (found != scope->names.end()) {
        slots.push_back({static_cast<uint16_t>(hops), found->second.slot});
        if (found->second.always) break;
      }
      if (scope->outer != nullptr && scope->outer->function != scope->function) ++hops;
    }
    read.name->asks_context = asks_context(read.name->global, read.scope);
    read.name->slots = {heap_.copy(slots.data(), slots.size()), slots.size()};
  }
}

}  // namespace slip::text::jinja
