// Expressions.
#include <algorithm>
#include <array>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace slip::text::jinja {
namespace {

/// Whether jinja2 would compute it while compiling, where joined texts lose their mark of being safe.
bool is_constant(const Expression* node) {
  switch (node->kind) {
    case ExpressionKind::kConstant: return true;
    case ExpressionKind::kFilter:
    case ExpressionKind::kTest: {
      const auto& applied = *static_cast<const Application*>(node);
      const auto& arguments = applied.arguments;
      return arguments.keywords.empty() && arguments.more == nullptr && arguments.more_keywords == nullptr &&
             applied.subject != nullptr && is_constant(applied.subject) &&
             std::all_of(arguments.positional.begin(), arguments.positional.end(), is_constant);
    }
    case ExpressionKind::kNot:
    case ExpressionKind::kNegative:
    case ExpressionKind::kPositive: return is_constant(static_cast<const Unary*>(node)->operand);
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
    case ExpressionKind::kArithmetic: {
      const auto& pair = *static_cast<const Binary*>(node);
      return is_constant(pair.left) && is_constant(pair.right);
    }
    case ExpressionKind::kSlice: {
      const auto& slice = *static_cast<const Slice*>(node);
      const auto absent = [](const Expression* part) { return part == nullptr || is_constant(part); };
      return is_constant(slice.subject) && absent(slice.from) && absent(slice.to) && absent(slice.step);
    }
    case ExpressionKind::kItem: {
      const auto& item = *static_cast<const Item*>(node);
      return is_constant(item.subject) && is_constant(item.key);
    }
    case ExpressionKind::kDict: {
      const auto pairs = static_cast<const DictDisplay*>(node)->pairs;
      return std::all_of(pairs.begin(), pairs.end(), [](const DictDisplay::Pair& pair) {
        return is_constant(pair.key) && is_constant(pair.value);
      });
    }
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
    case ExpressionKind::kConcatenation: {
      const auto items = static_cast<const Sequence*>(node)->items;
      return std::all_of(items.begin(), items.end(), is_constant);
    }
    default: return false;
  }
}

}  // namespace

/// The arguments of a call, evaluated. Few of them need no memory.
class Interpreter::CallArguments {
 public:
  CallArguments(Interpreter& run, const ArgumentList& list, const Value& caller = {}) {
    Heap& heap = run.heap_;
    size_t keywords = list.keywords.size() + (caller.is_missing() ? 0 : 1);
    Value more;
    Value more_keywords;
    Value* positional = few_.data();
    size_t count = list.positional.size();
    if (count > few_.size()) positional = heap.array<Value>(count);
    for (size_t i = 0; i < count; ++i) positional[i] = run.evaluate(list.positional[i]);
    Entry* entries = few_entries_.data();
    if (list.more_keywords == nullptr && keywords > few_entries_.size())
      entries = heap.array<Entry>(keywords);
    if (list.more != nullptr) {
      more = run.evaluate(list.more);
      const auto items = to_items(heap, more);
      Value* all = heap.array<Value>(count + items.size());
      std::copy_n(positional, count, all);
      std::copy(items.begin(), items.end(), all + count);
      positional = all;
      count += items.size();
    }
    if (list.more_keywords != nullptr) {
      more_keywords = run.evaluate(list.more_keywords);
      if (!more_keywords.is(Kind::kDict)) {
        type_error("argument after ** must be a mapping, not {}", type_name(more_keywords));
      }
      entries = heap.array<Entry>(keywords + more_keywords.dict()->size);
    }
    size_t filled = 0;
    for (const KeywordArgument& keyword : list.keywords) {
      entries[filled++] = {keyword.name, run.evaluate(keyword.value)};
    }
    if (!more_keywords.is_missing()) {
      for (const Entry& entry : more_keywords.dict()->all()) {
        if (!entry.key.is_string()) type_error("keywords must be strings");
        entries[filled++] = entry;
      }
    }
    if (!caller.is_missing()) entries[filled++] = {make_text_value(heap, "caller"), caller};
    arguments_ = {{positional, count}, {entries, filled}};
  }
  CallArguments(const CallArguments&) = delete;
  CallArguments& operator=(const CallArguments&) = delete;

  const Arguments& get() const { return arguments_; }

 private:
  std::array<Value, 4> few_;
  std::array<Entry, 3> few_entries_;
  Arguments arguments_;
};

Value Interpreter::evaluate(const Expression* node) {
  heap_.charge();
  if (node->kind == ExpressionKind::kConstant) return static_cast<const Constant*>(node)->value;
  if (node->kind == ExpressionKind::kName) return evaluate_name(*static_cast<const Name*>(node));
  const Depth depth(heap_);
  switch (node->kind) {
    case ExpressionKind::kConstant:
    case ExpressionKind::kName: break;
    case ExpressionKind::kAttribute: return evaluate_attribute(*static_cast<const Attribute*>(node));
    case ExpressionKind::kItem: {
      const auto& access = *static_cast<const Item*>(node);
      const Value subject = evaluate(access.subject);
      const Value key = evaluate(access.key);
      at_ = node->offset;
      return item(subject, key);
    }
    case ExpressionKind::kSlice: return evaluate_slice(*static_cast<const Slice*>(node));
    case ExpressionKind::kCall: return evaluate_call(*static_cast<const Call*>(node));
    case ExpressionKind::kFilter: return evaluate_filter(*static_cast<const Application*>(node), nullptr);
    case ExpressionKind::kTest: return evaluate_test(*static_cast<const Application*>(node));
    case ExpressionKind::kNot: return Value::of(!is_true(static_cast<const Unary*>(node)->operand));
    case ExpressionKind::kNegative:
    case ExpressionKind::kPositive: {
      const Value operand = evaluate(static_cast<const Unary*>(node)->operand);
      at_ = node->offset;
      return node->kind == ExpressionKind::kNegative ? negate(heap_, operand) : positive(operand);
    }
    case ExpressionKind::kAnd: {
      const Value left = evaluate(static_cast<const Binary*>(node)->left);
      return truthy(left) ? evaluate(static_cast<const Binary*>(node)->right) : left;
    }
    case ExpressionKind::kOr: {
      const Value left = evaluate(static_cast<const Binary*>(node)->left);
      return truthy(left) ? left : evaluate(static_cast<const Binary*>(node)->right);
    }
    case ExpressionKind::kConditional: {
      const auto& choice = *static_cast<const Conditional*>(node);
      if (is_true(choice.test)) return evaluate(choice.yes);
      if (choice.no != nullptr) return evaluate(choice.no);
      return undefined_hint(heap_,
                            "the inline if-expression evaluated to false and no else section was defined.");
    }
    case ExpressionKind::kArithmetic: {
      const auto& operation = *static_cast<const Binary*>(node);
      const Value left = evaluate(operation.left);
      const Value right = evaluate(operation.right);
      at_ = node->offset;
      return calculate(heap_, operation.op, left, right);
    }
    case ExpressionKind::kCompare: return evaluate_compare(*static_cast<const Compare*>(node));
    case ExpressionKind::kConcatenation: return evaluate_concatenation(*static_cast<const Sequence*>(node));
    case ExpressionKind::kList: return evaluate_sequence(*static_cast<const Sequence*>(node), Kind::kList);
    case ExpressionKind::kTuple: return evaluate_sequence(*static_cast<const Sequence*>(node), Kind::kTuple);
    case ExpressionKind::kDict: return evaluate_dict(*static_cast<const DictDisplay*>(node));
  }
  return {};
}

Value Interpreter::evaluate_name(const Name& node) {
  for (const SlotReference& reference : node.slots) {
    const Frame* frame = frame_;
    for (uint16_t hop = 0; hop < reference.hops; ++hop) frame = frame->outer;
    const Value& value = frame->slots[reference.slot];
    if (!value.is_missing()) return value;
  }
  const Value& global = globals_[node.global];
  if (node.asks_context && !global.is_missing()) return global;
  auto* undefined = heap_.make<Undefined>();
  undefined->name = tree_.globals[node.global];
  return Value::of(undefined);
}

Value Interpreter::evaluate_attribute(const Attribute& node) {
  const Value subject = evaluate(node.subject);
  at_ = node.offset;
  return attribute_of(subject, node);
}

/// The common cases without a search for the name.
Value Interpreter::attribute_of(const Value& subject, const Attribute& node) {
  if (subject.is(Kind::kDict) && node.of_dict == nullptr) {
    if (const Value* found = find(*subject.dict(), node.name.view())) {
      if (!node.name.view().starts_with("__")) return *found;
    }
  }
  if (subject.is(Kind::kLoop) && node.loop_field != LoopField::kNone && node.loop_field < LoopField::kCycle) {
    return subject.as<Loop>()->field(node.loop_field);
  }
  return attribute(subject, node.name);
}

Value Interpreter::evaluate_slice(const Slice& node) {
  const auto evaluated = [&](const Expression* part) {
    return part == nullptr ? Value::none() : evaluate(part);
  };
  const Value subject = evaluate(node.subject);
  const Value from = evaluated(node.from);
  const Value to = evaluated(node.to);
  const Value step = evaluated(node.step);
  at_ = node.offset;
  // jinja2 computes constants that are printed beforehand, by its own rules instead of Python's.
  const bool has_slices = subject.is_string() || subject.is_sequence() || subject.is(Kind::kRange);
  if (!has_slices && printed_ != nullptr && is_constant(printed_)) {
    return undefined_hint(heap_, "a constant has no slices");
  }
  return slice(heap_, subject, from, to, step);
}

Value Interpreter::evaluate_call(const Call& node) {
  Value self;
  const Builtin* method = nullptr;
  Value callee;
  if (node.callee->kind == ExpressionKind::kAttribute) {
    // A method of a string, a list or a dict needs no value of its own.
    const auto& access = *static_cast<const Attribute*>(node.callee);
    self = evaluate(access.subject);
    at_ = access.offset;
    if (self.is_string()) method = access.of_string;
    if (self.is(Kind::kDict)) method = access.of_dict;
    if (self.is(Kind::kList)) method = access.of_list;
    if (method != nullptr && method->is_unsafe) method = nullptr;
    if (method == nullptr) callee = attribute_of(self, access);
  } else {
    callee = evaluate(node.callee);
  }
  const CallArguments arguments(*this, node.arguments);
  at_ = node.offset;
  if (method != nullptr) return jinja::call(*this, *method, self, arguments.get());
  return call(callee, arguments.get());
}

Value Interpreter::evaluate_filter(const Application& node, const Value* captured) {
  Value subject;
  if (node.subject == nullptr) {
    subject = *captured;
  } else if (captured != nullptr) {
    subject = evaluate_filter(*static_cast<const Application*>(node.subject), captured);
  } else {
    subject = evaluate(node.subject);
  }
  at_ = node.offset;
  if (node.builtin == nullptr) raise(Fault::kTemplateRuntimeError, "No filter named '{}' found.", node.name);
  if (node.arguments.empty()) return jinja::call(*this, *node.builtin, subject, {});
  const CallArguments arguments(*this, node.arguments);
  at_ = node.offset;
  return jinja::call(*this, *node.builtin, subject, arguments.get());
}

Value Interpreter::evaluate_test(const Application& node) {
  const Value subject = evaluate(node.subject);
  at_ = node.offset;
  if (node.builtin == nullptr) raise(Fault::kTemplateRuntimeError, "No test named '{}' found.", node.name);
  if (node.arguments.empty()) return jinja::call(*this, *node.builtin, subject, {});
  const CallArguments arguments(*this, node.arguments);
  at_ = node.offset;
  return jinja::call(*this, *node.builtin, subject, arguments.get());
}

Value Interpreter::evaluate_compare(const Compare& node) {
  Value left = evaluate(node.first);
  bool holds = true;
  for (const Compare::Operand& operand : node.operands) {
    const Value right = evaluate(operand.value);
    at_ = node.offset;
    switch (operand.comparison) {
      case Comparison::kEqual: holds = equal(heap_, left, right); break;
      case Comparison::kNotEqual: holds = !equal(heap_, left, right); break;
      case Comparison::kLess: holds = ordered(heap_, Order::kLess, left, right); break;
      case Comparison::kLessOrEqual: holds = ordered(heap_, Order::kLessOrEqual, left, right); break;
      case Comparison::kGreater: holds = ordered(heap_, Order::kGreater, left, right); break;
      case Comparison::kGreaterOrEqual: holds = ordered(heap_, Order::kGreaterOrEqual, left, right); break;
      case Comparison::kIn: holds = contains(heap_, right, left); break;
      case Comparison::kNotIn: holds = !contains(heap_, right, left); break;
    }
    if (!holds) break;
    left = right;
  }
  return Value::of(holds);
}

Value Interpreter::evaluate_concatenation(const Sequence& node) {
  bool safe = false;
  const size_t count = node.items.size();
  Value* items = heap_.array<Value>(count);
  for (size_t i = 0; i < count; ++i) {
    items[i] = Value::of(to_text(heap_, evaluate(node.items[i])));
    safe = safe || items[i].text().markup;
  }
  at_ = node.offset;
  const bool escapes = autoescape_ && safe && !is_constant(&node);
  Text joined = escapes ? escape_html(heap_, items[0].text()) : items[0].text();
  for (size_t i = 1; i < count; ++i) {
    joined = concatenate(heap_, joined, escapes ? escape_html(heap_, items[i].text()) : items[i].text());
  }
  joined.markup = escapes;
  return Value::of(joined);
}

Value Interpreter::evaluate_sequence(const Sequence& node, Kind kind) {
  Value* items = heap_.array<Value>(node.items.size());
  for (size_t i = 0; i < node.items.size(); ++i) items[i] = evaluate(node.items[i]);
  return Value::list({items, node.items.size()}, kind);
}

Value Interpreter::evaluate_dict(const DictDisplay& node) {
  auto* dict = heap_.make<Dict>();
  for (const DictDisplay::Pair& pair : node.pairs) {
    const Value key = evaluate(pair.key);
    const Value value = evaluate(pair.value);
    at_ = node.offset;
    set(heap_, *dict, key, value);
  }
  return Value::of(dict);
}

// A call block hands its body over as the keyword `caller`.
Value Interpreter::call_with_block(const CallBlock& node) {
  auto* macro = heap_.make<Macro>();
  *macro = {node.definition, frame_};
  const Value callee = evaluate(node.call->callee);
  const CallArguments arguments(*this, node.call->arguments, Value::pointing(Kind::kMacro, macro));
  at_ = node.offset;
  return call(callee, arguments.get());
}

}  // namespace slip::text::jinja
