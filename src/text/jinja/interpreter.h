// Interpreter: walks the tree of a template once, with one context. Its public half is what filters, tests
// and methods need: reaching into values as the sandbox does, calling, and the state of the rendering.
#pragma once

#include <chrono>
#include <span>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/callables.h"
#include "text/jinja/iteration.h"
#include "text/jinja/parser.h"

namespace slip::text::jinja {

/// What strftime_now() reports: a date and a time of day, without a zone.
using Moment = std::chrono::sys_seconds;

class Interpreter {
 public:
  /// All must outlive it. `globals` has a value, or none, for each of the template's names.
  Interpreter(const Parsed& tree, Heap& heap, std::span<const Value> globals, Moment now);

  Text run();
  /// Where it is, for the message when something failed.
  uint32_t offset() const { return at_; }

  Heap& heap() { return heap_; }
  Moment now() const { return now_; }
  bool autoescape() const { return autoescape_; }

  /// subject.name and subject[key]: undefined when there is none, or when the sandbox refuses it.
  Value attribute(const Value& subject, const Value& name);
  Value item(const Value& subject, const Value& key);
  Value call(const Value& callee, const Arguments& given);

 private:
  enum class Flow : uint8_t { kOn, kBreak, kContinue };
  friend struct Loop;
  class CallArguments;

  // evaluate.cpp
  Value evaluate(const Expression* node);
  Value evaluate_name(const Name& node);
  Value evaluate_attribute(const Attribute& node);
  Value attribute_of(const Value& subject, const Attribute& node);
  Value evaluate_slice(const Slice& node);
  Value evaluate_call(const Call& node);
  Value evaluate_filter(const Application& node, const Value* captured);
  Value evaluate_test(const Application& node);
  Value evaluate_compare(const Compare& node);
  Value evaluate_concatenation(const Sequence& node);
  Value evaluate_sequence(const Sequence& node, Kind kind);
  Value evaluate_dict(const DictDisplay& node);
  bool is_true(const Expression* node) { return truthy(evaluate(node)); }
  Value call_with_block(const CallBlock& node);

  // execute.cpp
  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  void print(const Value& value);
  void print_text(const Value& value);
  Flow execute_if(const If& node);
  void execute_with(const With& node);
  void execute_block(const Block& node, Frame* outer);
  Value capture(const Body& body);
  void assign(const Target& target, const Value& value);
  void empty(std::span<const uint16_t> slots);

  // loops.cpp
  Flow execute_for(const For& node);
  void run_loop(const For& node, const Value& iterable, int depth);
  bool is_idle(const If& node, const For& loop);
  Value loop_again(Loop& loop, const Value& iterable);

  // calls.cpp
  Value call_macro(const Macro& macro, const Arguments& given);
  void bind(const MacroDefinition& macro, const Arguments& given);
  Value call_block_reference(const Block& block);
  Frame* enter(const FrameLayout& layout, Frame* outer);
  void leave(const FrameLayout& layout, Frame* frame);

  const Parsed& tree_;
  Heap& heap_;
  std::span<const Value> globals_;
  Moment now_;
  Frame* frame_ = nullptr;
  Frame* root_ = nullptr;
  TextBuilder* out_ = nullptr;
  uint32_t at_ = 0;
  bool autoescape_ = false;
  const Expression* printed_ = nullptr;  // by the statement that is running, or the last one
  // Frames that nothing outlives.
  Value* stack_ = nullptr;
  size_t stack_used_ = 0;
};

/// What `loop` is inside a loop.
struct Loop {
  Interpreter* run = nullptr;
  const For* node = nullptr;
  Walk* walk = nullptr;
  Frame* frame = nullptr;
  int64_t index0 = -1;
  int64_t length = -1;  // not known yet
  int depth0 = 0;
  Value current;
  Value before;
  Value after;  // looked at already
  Value changed;
  bool has_after = false;    // `after` is the next item, or missing at the end
  Iterator* rest = nullptr;  // what is left, once count() had to see it

  /// The next item that passes the loop's test; false at the end.
  bool advance(Value& item);
  const Value& peek();
  int64_t count();
  Value field(LoopField field);
};

/// An operator on two values; TypeError and others as Python has them.
Value calculate(Heap& heap, Operator op, const Value& left, const Value& right);
Value negate(Heap& heap, const Value& value);
Value positive(const Value& value);
/// needle in haystack
bool contains(Heap& heap, const Value& haystack, const Value& needle);
/// value[from:to:step], with missing for what is not there.
Value slice(Heap& heap, const Value& value, const Value& from, const Value& to, const Value& step);
/// template % values
Text format_percent(Heap& heap, const Text& form, const Value& values);

}  // namespace slip::text::jinja
