// The tree of a template, as the parser builds it and the interpreter walks it. Nodes live in the template's
// Heap, are never changed after parsing and hold no text of their own but constants.
//
// Names are resolved while parsing. A function (the template, a macro, the body of a call block, a recursive
// loop) has a frame of slots; a scope (the body of a loop, of a block set) has some of them. Reading a name
// looks into the slots that may hold it, from the innermost scope outwards, then among the globals.
#pragma once

#include <cstdint>
#include <span>

#include "text/jinja/callables.h"
#include "text/jinja/value.h"

namespace slip::text::jinja {

inline constexpr uint16_t kNoSlot = UINT16_MAX;

enum class ExpressionKind : uint8_t {
  kConstant,
  kName,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kNot,
  kNegative,
  kPositive,
  kAnd,
  kOr,
  kConditional,
  kArithmetic,
  kCompare,
  kConcatenation,
  kList,
  kTuple,
  kDict,
};

struct Expression {
  ExpressionKind kind;
  uint32_t offset;  // in the source, for messages
};

struct Constant : Expression {
  Value value;
};

/// A slot of the frame that is `hops` functions further out.
struct SlotReference {
  uint16_t hops;
  uint16_t slot;
};

struct Name : Expression {
  std::span<const SlotReference> slots;  // the first that holds a value counts
  uint32_t global = 0;                   // index among the template's names
  bool asks_context = true;              // when no slot holds a value
};

enum class LoopField : uint8_t {
  kNone,
  kIndex,
  kIndex0,
  kRevindex,
  kRevindex0,
  kFirst,
  kLast,
  kLength,
  kPrevitem,
  kNextitem,
  kDepth,
  kDepth0,
  kCycle,
  kChanged,
};

struct Attribute : Expression {
  Expression* subject = nullptr;
  Value name;
  LoopField loop_field = LoopField::kNone;
  bool on_text = false;  // kinds that have a method of that name
  const Builtin* of_string = nullptr;
  const Builtin* of_list = nullptr;
  const Builtin* of_dict = nullptr;
};

struct Item : Expression {
  Expression* subject = nullptr;
  Expression* key = nullptr;
};

struct Slice : Expression {
  Expression* subject = nullptr;
  Expression* from = nullptr;  // each may be null
  Expression* to = nullptr;
  Expression* step = nullptr;
};

struct KeywordArgument {
  Value name;
  Expression* value;
};

struct ArgumentList {
  std::span<Expression* const> positional = {};
  std::span<const KeywordArgument> keywords = {};
  Expression* more = nullptr;           // *args
  Expression* more_keywords = nullptr;  // **kwargs
  bool empty() const {
    return positional.empty() && keywords.empty() && more == nullptr && more_keywords == nullptr;
  }
};

struct Call : Expression {
  Expression* callee = nullptr;
  ArgumentList arguments;
};

/// A filter or a test. `builtin` is null for one that does not exist; using it fails.
struct Application : Expression {
  Expression* subject = nullptr;  // null: what a block captured
  const Builtin* builtin = nullptr;
  std::string_view name;
  ArgumentList arguments;
};

struct Unary : Expression {
  Expression* operand = nullptr;
};

enum class Operator : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };

/// Also for `and` and `or`.
struct Binary : Expression {
  Operator op = Operator::kAdd;
  Expression* left = nullptr;
  Expression* right = nullptr;
};

struct Conditional : Expression {
  Expression* test = nullptr;
  Expression* yes = nullptr;
  Expression* no = nullptr;  // may be null
};

enum class Comparison : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn,
};

struct Compare : Expression {
  struct Operand {
    Comparison comparison;
    Expression* value;
  };
  Expression* first = nullptr;
  std::span<const Operand> operands;
};

/// A list, a tuple or a concatenation.
struct Sequence : Expression {
  std::span<Expression* const> items;
};

struct DictDisplay : Expression {
  struct Pair {
    Expression* key;
    Expression* value;
  };
  std::span<const Pair> pairs;
};

// Statements.

enum class StatementKind : uint8_t {
  kData,
  kPrint,
  kIf,
  kFor,
  kAssign,
  kAssignBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,
  kAutoescape,
  kBlock,
  kBreak,
  kContinue,
  kInclude,  // of any kind; there is nothing to include from
};

struct Statement {
  StatementKind kind;
  uint32_t offset;
};

struct Body {
  std::span<Statement* const> statements = {};
  std::span<const uint16_t> slots = {};  // of its scope, without a value when it begins
};

struct Data : Statement {
  Text text;
};

struct Print : Statement {
  Expression* value = nullptr;
};

struct If : Statement {
  struct Branch {
    Expression* test;
    Body body;
  };
  std::span<const Branch> branches;
  Body otherwise;
};

struct Target {
  enum class Kind : uint8_t { kSlot, kNamespace, kTuple };
  Kind kind = Kind::kSlot;
  uint16_t slot = kNoSlot;
  uint32_t offset = 0;
  Name* space = nullptr;  // of kNamespace
  Value attribute;
  std::span<Target* const> parts = {};
};

/// The frame of a function: how many slots, and whether one inside it may outlive the call.
struct FrameLayout {
  uint32_t slots = 0;
  bool is_captured = false;
};

struct For : Statement {
  Target* target = nullptr;
  Expression* iterable = nullptr;
  Expression* test = nullptr;
  Body body;
  Body otherwise;
  uint16_t loop_slot = kNoSlot;      // where `loop` is kept, if the body reads it
  FrameLayout* recursive = nullptr;  // of a recursive loop
};

struct Assign : Statement {
  Target* target = nullptr;
  Expression* value = nullptr;
};

struct AssignBlock : Statement {
  Target* target = nullptr;
  Application* filter = nullptr;  // may be null
  Body body;
};

struct MacroDefinition {
  struct Parameter {
    Value name;
    uint16_t slot;
    Expression* standard;  // may be null
  };
  std::string_view name;
  std::span<const Parameter> parameters;
  FrameLayout* layout = nullptr;
  Body body;
  uint16_t caller_slot = kNoSlot;
  uint16_t varargs_slot = kNoSlot;
  uint16_t kwargs_slot = kNoSlot;
  bool caller_is_parameter = false;
};

struct MacroStatement : Statement {
  Target* target = nullptr;
  MacroDefinition* definition = nullptr;
};

struct CallBlock : Statement {
  Call* call = nullptr;
  MacroDefinition* definition = nullptr;
};

struct FilterBlock : Statement {
  Application* filter = nullptr;
  Body body;
};

struct With : Statement {
  std::span<Target* const> targets;
  std::span<Expression* const> values;
  Body body;
};

/// A scope of its own, or a stretch with HTML escaping.
struct Scoped : Statement {
  Expression* autoescape = nullptr;
  Body body;
};

struct Block : Statement {
  std::string_view name;
  FrameLayout* layout = nullptr;
  Body body;
  bool sees_inside = false;  // scoped: sees the names of where it stands, not only the template's
};

struct Frame {
  Value* slots = nullptr;
  Frame* outer = nullptr;
};

}  // namespace slip::text::jinja
