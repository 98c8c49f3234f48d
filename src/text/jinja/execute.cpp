// Statements, and the way from a tree to text.
#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace slip::text::jinja {

Interpreter::Interpreter(const Parsed& tree, Heap& heap, std::span<const Value> globals, Moment now)
    : tree_(tree), heap_(heap), globals_(globals), now_(now) {}

Text Interpreter::run() {
  TextBuilder out(heap_, 1024);
  out_ = &out;
  root_ = enter(*tree_.layout, nullptr);
  frame_ = root_;
  execute(tree_.body);
  return out.finish();
}

void Interpreter::empty(std::span<const uint16_t> slots) {
  for (const uint16_t slot : slots) frame_->slots[slot] = Value();
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  const Depth depth(heap_);
  empty(body.slots);
  for (const Statement* statement : body.statements) {
    heap_.charge();
    const Flow flow = execute(*statement);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kData: out_->append(static_cast<const Data&>(statement).text); break;
    case StatementKind::kPrint:
      printed_ = static_cast<const Print&>(statement).value;
      print(evaluate(printed_));
      printed_ = nullptr;
      break;
    case StatementKind::kIf: return execute_if(static_cast<const If&>(statement));
    case StatementKind::kFor: return execute_for(static_cast<const For&>(statement));
    case StatementKind::kAssign: {
      const auto& node = static_cast<const Assign&>(statement);
      assign(*node.target, evaluate(node.value));
      break;
    }
    case StatementKind::kAssignBlock: {
      const auto& node = static_cast<const AssignBlock&>(statement);
      Value value = capture(node.body);
      if (node.filter != nullptr) value = evaluate_filter(*node.filter, &value);
      assign(*node.target, value);
      break;
    }
    case StatementKind::kMacro: {
      const auto& node = static_cast<const MacroStatement&>(statement);
      auto* macro = heap_.make<Macro>();
      *macro = {node.definition, frame_};
      assign(*node.target, Value::pointing(Kind::kMacro, macro));
      break;
    }
    case StatementKind::kCallBlock:
      print_text(call_with_block(static_cast<const CallBlock&>(statement)));
      break;
    case StatementKind::kFilterBlock: {
      const auto& node = static_cast<const FilterBlock&>(statement);
      const Value captured = capture(node.body);
      print_text(evaluate_filter(*node.filter, &captured));
      break;
    }
    case StatementKind::kWith: execute_with(static_cast<const With&>(statement)); break;
    case StatementKind::kScope: return execute(static_cast<const Scoped&>(statement).body);
    case StatementKind::kAutoescape: {
      const auto& node = static_cast<const Scoped&>(statement);
      const bool before = autoescape_;
      autoescape_ = is_true(node.autoescape);
      const Flow flow = execute(node.body);
      autoescape_ = before;
      return flow;
    }
    case StatementKind::kBlock: {
      const auto& node = static_cast<const Block&>(statement);
      execute_block(node, node.sees_inside ? frame_ : root_);
      break;
    }
    case StatementKind::kBreak: return Flow::kBreak;
    case StatementKind::kContinue: return Flow::kContinue;
    case StatementKind::kInclude:
      at_ = statement.offset;
      type_error("no loader for this environment specified");
  }
  return Flow::kOn;
}

void Interpreter::print(const Value& value) {
  if (autoescape_) {
    out_->append(escape_html(heap_, to_text(heap_, value)));
  } else {
    jinja::print(heap_, value, *out_);
  }
}

/// What a call block or a filter block gives goes out as it is.
void Interpreter::print_text(const Value& value) {
  if (!value.is_string()) type_error("sequence item: expected str instance, {} found", type_name(value));
  out_->append(value.text());
}

Interpreter::Flow Interpreter::execute_if(const If& node) {
  for (const If::Branch& branch : node.branches) {
    if (is_true(branch.test)) return execute(branch.body);
  }
  return execute(node.otherwise);
}

void Interpreter::execute_with(const With& node) {
  const size_t count = node.targets.size();
  Value* values = heap_.array<Value>(count);
  for (size_t i = 0; i < count; ++i) values[i] = evaluate(node.values[i]);
  for (size_t i = 0; i < count; ++i) assign(*node.targets[i], values[i]);
  execute(node.body);
}

void Interpreter::execute_block(const Block& node, Frame* outer) {
  Frame* before = frame_;
  frame_ = enter(*node.layout, outer);
  execute(node.body);
  leave(*node.layout, frame_);
  frame_ = before;
}

/// What a body prints, as a value.
Value Interpreter::capture(const Body& body) {
  TextBuilder captured(heap_);
  TextBuilder* before = out_;
  out_ = &captured;
  execute(body);
  out_ = before;
  Text text = captured.finish();
  text.markup = autoescape_;
  return Value::of(text);
}

void Interpreter::assign(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::kSlot: frame_->slots[target.slot] = value; return;
    case Target::Kind::kNamespace: {
      const Value space = evaluate_name(*target.space);
      at_ = target.offset;
      if (!space.is(Kind::kNamespace)) {
        raise(Fault::kTemplateRuntimeError, "cannot assign attribute on non-namespace object");
      }
      set(heap_, *space.dict(), target.attribute, value);
      return;
    }
    case Target::Kind::kTuple: break;
  }
  at_ = target.offset;
  const size_t count = target.parts.size();
  if (!is_iterable(value)) type_error("cannot unpack non-iterable {} object", type_name(value));
  Walk walk(heap_, value);
  Value* items = heap_.array<Value>(count);
  for (size_t i = 0; i < count; ++i) {
    if (!walk.next(items[i])) {
      raise(Fault::kValueError, "not enough values to unpack (expected {}, got {})", count, i);
    }
  }
  if (Value extra; walk.next(extra)) {
    raise(Fault::kValueError, "too many values to unpack (expected {})", count);
  }
  for (size_t i = 0; i < count; ++i) assign(*target.parts[i], items[i]);
}

}  // namespace slip::text::jinja
