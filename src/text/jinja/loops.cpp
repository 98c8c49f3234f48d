// Loops, and what `loop` tells inside them.
#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"

namespace slip::text::jinja {
namespace {

/// Whether it gives the same in the next round, as long as nothing but rounds goes by.
bool is_steady(const Expression* node, const For& loop) {
  switch (node->kind) {
    case ExpressionKind::kConstant: return true;
    case ExpressionKind::kName: {
      const auto& slots = static_cast<const Name*>(node)->slots;
      return std::none_of(slots.begin(), slots.end(), [&](const SlotReference& reference) {
        return reference.hops == 0 &&
               (reference.slot == loop.target->slot || reference.slot == loop.loop_slot);
      });
    }
    case ExpressionKind::kAttribute: return is_steady(static_cast<const Attribute*>(node)->subject, loop);
    case ExpressionKind::kNot: return is_steady(static_cast<const Unary*>(node)->operand, loop);
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr: {
      const auto& pair = *static_cast<const Binary*>(node);
      return is_steady(pair.left, loop) && is_steady(pair.right, loop);
    }
    default: return false;
  }
}

/// The one `if` that is all of the body of a loop over items that are there already; else null. Templates search
/// their messages with such loops, and go through all that is left after they found what they sought.
const If* only_if(const For& node, const Value& iterable) {
  const bool plain = iterable.is(Kind::kList) || iterable.is(Kind::kTuple) || iterable.is(Kind::kRange);
  if (!plain || node.test != nullptr || node.target->kind != Target::Kind::kSlot) return nullptr;
  if (node.body.statements.size() != 1 || node.body.statements[0]->kind != StatementKind::kIf) return nullptr;
  return static_cast<const If*>(node.body.statements[0]);
}

}  // namespace

Interpreter::Flow Interpreter::execute_for(const For& node) {
  const Value iterable = evaluate(node.iterable);
  at_ = node.offset;
  if (node.recursive == nullptr) {
    run_loop(node, iterable, 0);
    return Flow::kOn;
  }
  Frame* before = frame_;
  frame_ = enter(*node.recursive, before);
  run_loop(node, iterable, 0);
  leave(*node.recursive, frame_);
  frame_ = before;
  return Flow::kOn;
}

void Interpreter::run_loop(const For& node, const Value& iterable, int depth) {
  Walk walk(heap_, iterable);
  Loop plain;
  // The template may keep what it reads as `loop`.
  Loop* loop = node.loop_slot == kNoSlot ? &plain : heap_.make<Loop>();
  loop->run = this;
  loop->node = &node;
  loop->walk = &walk;
  loop->frame = frame_;
  loop->depth0 = depth;
  if (node.test == nullptr && node.loop_slot != kNoSlot) loop->length = length_of(iterable);
  const If* only = only_if(node, iterable);
  bool any = false;
  for (Value item; loop->advance(item);) {
    heap_.charge();
    assign(*node.target, item);
    if (node.loop_slot != kNoSlot) {
      frame_->slots[node.loop_slot] = Value::pointing(Kind::kLoop, loop);
    }
    if (only != nullptr && is_idle(*only, node)) {
      any = true;
      break;
    }
    const Flow flow = execute(node.body);
    if (flow == Flow::kBreak) break;
    // jinja2 takes the `else` after a loop of which no round came to its end.
    any = any || flow == Flow::kOn;
  }
  loop->walk = nullptr;
  if (!any) execute(node.otherwise);
}

/// Whether this round, and so each after it, does nothing: an `if` that asks for nothing of the round chooses nothing.
bool Interpreter::is_idle(const If& node, const For& loop) {
  empty(loop.body.slots);
  for (const If::Branch& branch : node.branches) {
    if (!is_steady(branch.test, loop)) return false;
    if (is_true(branch.test)) return branch.body.statements.empty();
  }
  return node.otherwise.statements.empty();
}

/// `loop(items)` in a recursive loop: the loop once more, over other items, as text.
Value Interpreter::loop_again(Loop& loop, const Value& iterable) {
  if (loop.node->recursive == nullptr) {
    type_error("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Depth depth(heap_);
  TextBuilder captured(heap_);
  TextBuilder* out_before = out_;
  Frame* before = frame_;
  out_ = &captured;
  frame_ = enter(*loop.node->recursive, loop.frame->outer);
  run_loop(*loop.node, iterable, loop.depth0 + 1);
  leave(*loop.node->recursive, frame_);
  frame_ = before;
  out_ = out_before;
  Text text = captured.finish();
  text.markup = autoescape_;
  return Value::of(text);
}

bool Loop::advance(Value& item) {
  if (has_after) {
    item = after;
    has_after = false;
    if (item.is_missing()) return false;
  } else if (rest != nullptr) {
    if (rest->next == rest->items.size()) return false;
    item = rest->items[rest->next++];
  } else if (node->test == nullptr) {
    if (walk == nullptr || !walk->next(item)) return false;
  } else {
    while (true) {
      if (walk == nullptr || !walk->next(item)) return false;
      run->heap_.charge();
      run->assign(*node->target, item);
      if (run->is_true(node->test)) break;
    }
  }
  ++index0;
  before = current;
  current = item;
  return true;
}

/// The next item without taking it; missing at the end.
const Value& Loop::peek() {
  if (has_after) return after;
  const Value current_before = current;
  const Value before_before = before;
  const bool is_first = index0 < 0;
  Value item;
  Frame* frame_before = run->frame_;
  run->frame_ = frame;
  const bool found = advance(item);
  if (found) --index0;
  current = current_before;
  before = before_before;
  // The test of the items looked at has overwritten the loop's variables.
  if (node->test != nullptr && !is_first) run->assign(*node->target, current);
  run->frame_ = frame_before;
  after = found ? item : Value();
  has_after = true;
  return after;
}

int64_t Loop::count() {
  if (length >= 0) return length;
  // A generator, or a loop with a test: all that is left must be seen, and is then walked as a list.
  Growing<Value> seen(run->heap_);
  while (!peek().is_missing()) {
    seen.push(after);
    has_after = false;
  }
  length = index0 + 1 + seen.size();
  rest = run->heap_.make<Iterator>();
  rest->items = {seen.data(), seen.size()};
  has_after = false;
  return length;
}

Value Loop::field(LoopField which) {
  switch (which) {
    case LoopField::kIndex: return Value::of(index0 + 1);
    case LoopField::kIndex0: return Value::of(index0);
    case LoopField::kRevindex: return Value::of(count() - index0);
    case LoopField::kRevindex0: return Value::of(count() - index0 - 1);
    case LoopField::kFirst: return Value::of(index0 == 0);
    case LoopField::kLast: return Value::of(length >= 0 ? index0 + 1 >= length : peek().is_missing());
    case LoopField::kLength: return Value::of(count());
    case LoopField::kPrevitem:
      return index0 == 0 ? undefined_hint(run->heap(), "there is no previous item") : before;
    case LoopField::kNextitem: {
      const Value& next = peek();
      return next.is_missing() ? undefined_hint(run->heap(), "there is no next item") : next;
    }
    case LoopField::kDepth: return Value::of(int64_t{depth0} + 1);
    case LoopField::kDepth0: return Value::of(int64_t{depth0});
    case LoopField::kNone:
    case LoopField::kCycle:
    case LoopField::kChanged: break;
  }
  return {};
}

}  // namespace slip::text::jinja
