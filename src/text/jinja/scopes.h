// Scopes: while a template is parsed, who stores which name. At the end every name that is read gets the list
// of slots that may hold it. jinja2 decides the same way: by where names are stored in the text, not by what
// has run.
#pragma once

#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"

namespace slip::text::jinja {

class Scopes {
  struct Function {
    FrameLayout* layout;
  };
  struct Slot {
    uint16_t slot;
    bool always;
  };
  enum class First : uint8_t { kRead, kStored };
  struct Scope {
    Scope* outer;    // where names are looked for next
    Scope* left_to;  // what becomes current again
    Function* function;
    std::unordered_map<uint32_t, Slot> names = {};
    /// What the text does first with a name here. jinja2 asks the context only for names that the outermost
    /// scope to mention them reads before it stores them.
    std::unordered_map<uint32_t, First> first = {};
    bool is_block = false;  // asks the context for whatever it does not store
    std::vector<uint16_t> emptied = {};
    std::vector<std::string_view> seen = {};  // of the names that come when they are read
  };

 public:
  explicit Scopes(Heap& heap);

  /// A function begins a frame, and a scope in it.
  void enter_function();
  void enter_scope();
  /// The `else` of a loop: in the frame of the current scope, but it does not see its names.
  void enter_else();
  /// A function that sees the template's own names and none of those around it.
  void enter_block();
  /// Leaves what was entered last. Gives the slots to be emptied whenever that scope begins anew.
  std::span<const uint16_t> leave();
  /// The current scope, which has declared names at most, becomes that of a function. Its names get new
  /// slots.
  void become_function();

  /// What is read until back() is read outside the current scope, such as what a loop walks over.
  using Inside = Scope*;
  Inside outside();
  void back(Inside inside) { current_ = inside; }

  enum class Stored : uint8_t { kMaybe, kAlways };
  /// A place for the name in the current scope. `kAlways`: it holds a value whenever the scope is entered.
  uint16_t declare(std::string_view name, Stored stored = Stored::kMaybe);
  /// The name gets its value here. `in_branch`: perhaps, so that it may have to come from the context.
  void store(std::string_view name, bool in_branch);
  Name* read(std::string_view name, uint32_t offset);
  FrameLayout* layout() const { return current_->function->layout; }
  /// Whether the current scope, or one inside it, has read one of the names that come when they are read:
  /// loop, caller, varargs, kwargs.
  bool reads(std::string_view name) const;

  /// Gives every name that was read its slots.
  void resolve();
  const std::vector<std::string_view>& globals() const { return globals_; }

 private:
  struct Read {
    Name* name;
    Scope* scope;
  };
  Function* new_function();
  bool asks_context(uint32_t name, const Scope* scope) const;
  uint32_t intern(std::string_view name);

  Heap& heap_;
  std::deque<Function> functions_;
  std::deque<Scope> scopes_;
  Scope* current_ = nullptr;
  std::unordered_map<std::string_view, uint32_t> ids_;
  std::vector<std::string_view> globals_;
  std::vector<Read> reads_;
};

}  // namespace slip::text::jinja
