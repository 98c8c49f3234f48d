#include "text/jinja/value.h"

#include "text/jinja/failure.h"

namespace slip::text::jinja {
namespace {

std::string_view type_name(Kind kind) {
  switch (kind) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kMissing:
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt:
    case Kind::kBigInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kDict: return "dict";
    case Kind::kRange: return "range";
    case Kind::kView: return "dict view";
    case Kind::kIterator: return "generator";
    case Kind::kNamespace: return "Namespace";
    case Kind::kLoop: return "LoopContext";
    case Kind::kMacro: return "Macro";
    case Kind::kFunction: return "function";
    case Kind::kMethod: return "builtin_function_or_method";
    case Kind::kCycler: return "Cycler";
    case Kind::kJoiner: return "Joiner";
    case Kind::kSelf: return "TemplateReference";
    case Kind::kBlock: break;
  }
  return "BlockReference";
}

/// How jinja2 calls what has no such attribute: "dict object", but "'None'".
std::string owner_of(Kind kind) {
  if (kind == Kind::kNone) return "'None'";
  return fmt::format("'{} object'", type_name(kind));
}

}  // namespace

std::string_view type_name(const Value& value) {
  return type_name(value.kind());
}

void refuse(const Undefined& undefined) {
  using Why = Undefined::Why;
  switch (undefined.why) {
    case Why::kName: raise(Fault::kUndefinedError, "'{}' is undefined", undefined.name);
    case Why::kAttribute:
      raise(Fault::kUndefinedError, "{} has no attribute '{}'", owner_of(undefined.owner), undefined.name);
    case Why::kElement:
      raise(Fault::kUndefinedError, "{} object has no element {}", type_name(undefined.owner),
            undefined.name);
    case Why::kUnsafe:
      raise(Fault::kSecurityError, "access to attribute '{}' of '{}' object is unsafe.", undefined.name,
            type_name(undefined.owner));
    case Why::kHint: break;
  }
  raise(Fault::kUndefinedError, "{}", undefined.name);
}

Value undefined_hint(Heap& heap, std::string_view hint) {
  auto* undefined = heap.make<Undefined>();
  undefined->why = Undefined::Why::kHint;
  undefined->name = hint;
  return Value::of(undefined);
}

}  // namespace slip::text::jinja
