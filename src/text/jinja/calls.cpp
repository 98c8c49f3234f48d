// Calls: of macros, of what a template was given, and the binding of arguments.
#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"

namespace slip::text::jinja {
namespace {

constexpr size_t kStack = 4096;  // values in frames that nothing outlives; larger needs go to the heap

/// The place of `name` in a list with commas, or -1.
int place_of(std::string_view parameters, std::string_view name) {
  for (int place = 0;; ++place) {
    const size_t comma = parameters.find(',');
    if (parameters.substr(0, comma) == name) return place;
    if (comma == std::string_view::npos) return -1;
    parameters.remove_prefix(comma + 1);
  }
}

size_t count_of(std::string_view parameters) {
  return parameters.empty() ? 0
                            : static_cast<size_t>(std::count(parameters.begin(), parameters.end(), ',')) + 1;
}

Value finish_or_wait(Interpreter& run, const Builtin& builtin, const Value& self, const Bound& bound) {
  if (!builtin.is_lazy) return builtin.function(run, self, bound);
  Heap& heap = run.heap();
  const auto& positional = bound.all->positional;
  const auto& keywords = bound.all->keywords;
  auto* pending = heap.make<Pending>();
  pending->run = &run;
  pending->builtin = &builtin;
  pending->self = self;
  pending->bound = bound;
  pending->given = {{heap.copy(positional.data(), positional.size()), positional.size()},
                    {heap.copy(keywords.data(), keywords.size()), keywords.size()}};
  auto* iterator = heap.make<Iterator>();
  iterator->pending = pending;
  return Value::pointing(Kind::kIterator, iterator);
}

}  // namespace

Value call(Interpreter& run, const Builtin& builtin, const Value& self, const Arguments& given) {
  Bound bound;
  bound.all = &given;
  std::string_view parameters = builtin.parameters;
  if (parameters == "*") return finish_or_wait(run, builtin, self, bound);
  const bool positional_only = parameters.starts_with('/');
  if (positional_only) parameters.remove_prefix(1);
  const size_t count = given.positional.empty() && given.keywords.empty() ? 0 : count_of(parameters);
  if (given.positional.size() > count) {
    type_error("{}() takes {} arguments but {} were given", builtin.name, count, given.positional.size());
  }
  std::copy(given.positional.begin(), given.positional.end(), bound.values.begin());
  for (const Entry& keyword : given.keywords) {
    const std::string_view name = keyword.key.view();
    const int place = positional_only ? -1 : place_of(parameters, name);
    if (place < 0) type_error("{}() got an unexpected keyword argument '{}'", builtin.name, name);
    Value& value = bound.values[static_cast<size_t>(place)];
    if (!value.is_missing()) type_error("{}() got multiple values for argument '{}'", builtin.name, name);
    value = keyword.value;
  }
  for (size_t i = 0; i < builtin.required; ++i) {
    if (bound.values[i].is_missing()) type_error("{}() misses a required argument", builtin.name);
  }
  return finish_or_wait(run, builtin, self, bound);
}

std::span<const Value> finish(Pending& pending) {
  const Depth depth(pending.run->heap());
  pending.bound.all = &pending.given;
  return pending.builtin->function(*pending.run, pending.self, pending.bound).as<Iterator>()->items;
}

std::string_view name_of(const Macro& macro) {
  return macro.definition->name;
}

Frame* Interpreter::enter(const FrameLayout& layout, Frame* outer) {
  auto* frame = heap_.make<Frame>();
  frame->outer = outer;
  if (stack_ == nullptr) stack_ = heap_.array<Value>(kStack);
  if (!layout.is_captured && kStack - stack_used_ >= layout.slots) {
    frame->slots = stack_ + stack_used_;
    stack_used_ += layout.slots;
  } else {
    frame->slots = heap_.array<Value>(layout.slots);
  }
  std::fill_n(frame->slots, layout.slots, Value());
  return frame;
}

void Interpreter::leave(const FrameLayout& layout, Frame* frame) {
  if (frame->slots >= stack_ && frame->slots < stack_ + kStack && !layout.is_captured) {
    stack_used_ -= layout.slots;
  }
}

Value Interpreter::call(const Value& callee, const Arguments& given) {
  switch (callee.kind()) {
    case Kind::kMacro: return call_macro(*callee.as<Macro>(), given);
    case Kind::kFunction: return jinja::call(*this, *callee.as<Builtin>(), {}, given);
    case Kind::kMethod: {
      const auto& method = *callee.as<Method>();
      return jinja::call(*this, *method.builtin, method.self, given);
    }
    case Kind::kLoop:
      if (given.positional.size() != 1 || !given.keywords.empty()) type_error("loop() takes one argument");
      return loop_again(*callee.as<Loop>(), given.positional[0]);
    case Kind::kJoiner: {
      auto& joiner = *callee.as<Joiner>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return Value::of(empty_text());
    }
    case Kind::kBlock: return call_block_reference(*callee.as<Block>());
    case Kind::kUndefined: demand_defined(callee); break;
    default: break;
  }
  type_error("'{}' object is not callable", type_name(callee));
}

Value Interpreter::call_block_reference(const Block& block) {
  if (block.sees_inside) {
    raise(Fault::kNotImplementedError, "the scoped block '{}' cannot be printed again through self",
          block.name);
  }
  TextBuilder captured(heap_);
  TextBuilder* before = out_;
  out_ = &captured;
  execute_block(block, root_);
  out_ = before;
  return Value::of(captured.finish());
}

Value Interpreter::call_macro(const Macro& macro, const Arguments& given) {
  const Depth depth(heap_);
  heap_.charge(4);
  const MacroDefinition& definition = *macro.definition;
  TextBuilder captured(heap_);
  TextBuilder* out_before = out_;
  Frame* before = frame_;
  out_ = &captured;
  frame_ = enter(*definition.layout, macro.frame);
  bind(definition, given);
  execute(definition.body);
  leave(*definition.layout, frame_);
  frame_ = before;
  out_ = out_before;
  Text text = captured.finish();
  text.markup = autoescape_;
  return Value::of(text);
}

void Interpreter::bind(const MacroDefinition& macro, const Arguments& given) {
  const size_t count = macro.parameters.size();
  Growing<uint8_t> used(heap_);
  for (size_t i = 0; i < given.keywords.size(); ++i) used.push(0);
  const auto take = [&](std::string_view name) {
    for (size_t i = 0; i < given.keywords.size(); ++i) {
      if (used[i] != 0 || given.keywords[i].key.view() != name) continue;
      used[i] = 1;
      return given.keywords[i].value;
    }
    return Value();
  };
  for (size_t i = 0; i < count; ++i) {
    const auto& parameter = macro.parameters[i];
    frame_->slots[parameter.slot] =
        i < given.positional.size() ? given.positional[i] : take(parameter.name.view());
  }
  if (macro.caller_slot != kNoSlot && !macro.caller_is_parameter) {
    const Value caller = take("caller");
    frame_->slots[macro.caller_slot] =
        caller.is_missing() || caller.is_none() ? undefined_hint(heap_, "No caller defined") : caller;
  }
  auto* rest = macro.kwargs_slot == kNoSlot ? nullptr : heap_.make<Dict>();
  for (size_t i = 0; i < given.keywords.size(); ++i) {
    if (used[i] != 0) continue;
    const Entry& keyword = given.keywords[i];
    if (rest != nullptr) {
      set(heap_, *rest, keyword.key, keyword.value);
    } else if (keyword.key.view() == "caller") {
      type_error(
          "macro '{}' was invoked with two values for the special caller argument. This is most likely a "
          "bug.",
          macro.name);
    } else {
      type_error("macro '{}' takes no keyword argument '{}'", macro.name, keyword.key.view());
    }
  }
  if (rest != nullptr) frame_->slots[macro.kwargs_slot] = Value::of(rest);
  if (macro.varargs_slot != kNoSlot) {
    const auto more = given.positional.subspan(std::min(count, given.positional.size()));
    frame_->slots[macro.varargs_slot] = Value::tuple({heap_.copy(more.data(), more.size()), more.size()});
  } else if (given.positional.size() > count) {
    type_error("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
  for (const auto& parameter : macro.parameters) {
    Value& value = frame_->slots[parameter.slot];
    if (!value.is_missing()) continue;
    value = parameter.standard != nullptr ? evaluate(parameter.standard)
                                          : undefined_hint(heap_, "a parameter was not provided");
  }
}

}  // namespace slip::text::jinja
