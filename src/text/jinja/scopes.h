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
  struct Scope {
    Scope* outer;    // where names are looked for next
    Scope* left_to;  // what becomes current again
    Function* function;
    std::unordered_map<uint32_t, Slot> names = {};
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
  /// The current scope, which has declared names at most, becomes that of a function. Its names get new slots.
  void become_function();

  /// What is read until back() is read outside the current scope, such as what a loop walks over.
  using Inside = Scope*;
  Inside outside();
  void back(Inside inside) { current_ = inside; }

  enum class Stored : uint8_t { kMaybe, kAlways };
  /// A place for the name in the current scope. `kAlways`: it holds a value whenever the scope is entered.
  uint16_t declare(std::string_view name, Stored stored = Stored::kMaybe);
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
