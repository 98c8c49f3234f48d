// Parser: a template's text as a tree, by the grammar of jinja2 3.1 with `break`, `continue` and Hugging
// Face's `generation`. What jinja2 refuses when it compiles is refused here, with its words.
//
// Nesting is bounded, so the parser cannot run out of stack; everything else is bounded by the heap.
#pragma once

#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/failure.h"
#include "text/jinja/lexer.h"
#include "text/jinja/scopes.h"

namespace slip::text::jinja {

struct Parsed {
  Body body;
  FrameLayout* layout = nullptr;
  std::vector<std::string_view> globals;  // names by Name::global
  std::vector<const Block*> blocks;
};

class Parser {
 public:
  /// `source` must be normalised and outlive the tree.
  Parser(std::string_view source, Heap& heap);
  Parsed parse();

 private:
  using EndTags = std::span<const std::string_view>;

  // parser.cpp: tokens
  void advance();
  const Token& peek();
  Token take();
  bool take_if(TokenKind kind);
  bool take_name_if(std::string_view name);
  Token expect(TokenKind kind);
  void expect_name(std::string_view name);
  [[noreturn]] void refuse(uint32_t offset, std::string message) const;
  [[noreturn]] void refuse(std::string message) const { refuse(current_.offset, std::move(message)); }
  [[noreturn]] void refuse_tag(std::string_view name) const;
  void refuse_later(Fault fault, uint32_t offset, std::string message);
  template <typename T>
  T* make(ExpressionKind kind, uint32_t offset);
  template <typename T>
  T* make(StatementKind kind, uint32_t offset);
  template <typename T>
  std::span<const T> keep(const std::vector<T>& items) {
    return {heap_.copy(items.data(), items.size()), items.size()};
  }
  template <typename T>
  std::span<T* const> keep_nodes(const std::vector<T*>& items) {
    return {heap_.copy(items.data(), items.size()), items.size()};
  }
  Value text_value(std::string_view text) { return Value::of(make_text(heap_, text)); }

  // parser_statements.cpp
  Body body(EndTags ends);
  Body block_body(EndTags ends);
  /// The same as a scope of its own, up to `end`, which is taken.
  Body scoped_body(std::string_view end);
  Statement* statement();
  Statement* tag_statement(std::string_view tag);
  Statement* for_statement();
  Statement* if_statement();
  Statement* set_statement();
  Statement* macro_statement();
  /// Body and special parameters of a macro whose function is the current scope; leaves it.
  void finish(MacroDefinition& macro, std::string_view end);
  Statement* call_block();
  Statement* filter_block();
  Statement* with_statement();
  Statement* print_statement();
  Statement* block_statement();
  Statement* scoped_statement(std::string_view end, bool autoescape);
  Statement* jump_statement();
  Statement* include_statement();

  // parser_targets.cpp
  using Stored = Scopes::Stored;
  Target* target(Stored stored, bool with_namespace, std::string_view end_name = {});
  Target* assignable(Stored stored, bool with_namespace);
  Target* name_target(const Token& token, Stored stored);
  /// Tells the scopes that the target has its value now.
  void stored(const Target& target);
  /// Slots anew, after the scope became a function.
  void redeclare(Target& target);
  std::span<const MacroDefinition::Parameter> signature();

  // parser_operators.cpp
  Expression* expression();
  Expression* disjunction();
  Expression* conjunction();
  Expression* negation();
  Expression* comparison();
  Expression* sum();
  Expression* concatenation();
  Expression* product();
  Expression* power();

  // parser_operands.cpp
  Expression* unary(bool with_filter = true);
  Expression* primary();
  Expression* postfix(Expression* node);
  Expression* applications(Expression* node);
  Expression* subscript(Expression* node);
  Expression* subscribed(Expression* subject, uint32_t offset, bool& is_slice);
  Expression* call(Expression* callee);
  Expression* test(Expression* subject);
  Application* filters(Expression* subject, bool start_inline);
  std::string_view dotted_name();
  ArgumentList arguments();
  Expression* tuple(bool with_conditional = true, bool explicit_parentheses = false,
                    std::string_view end_name = {});
  Expression* list_display();
  Expression* dict_display();
  bool at_tuple_end(std::string_view end_name) const;
  Expression* binary(ExpressionKind kind, Operator op, uint32_t offset, Expression* left, Expression* right);

  struct Unknown {
    uint32_t offset;
    std::string message;
  };

  Heap& heap_;
  Lexer lexer_;
  Scopes scopes_;
  Token current_;
  Token next_;
  bool has_next_ = false;
  std::vector<std::string_view> open_tags_;
  std::vector<EndTags> end_tags_;
  std::vector<const Block*> blocks_;
  std::unordered_set<std::string_view> block_names_;
  // Filters and tests that do not exist. Where jinja2 might not reach them, using them fails instead.
  std::vector<Unknown> unknown_;
  bool is_soft_ = false;
  bool in_branch_ = false;  // of an `if` in the current scope
  int loops_ = 0;           // around this place, in the same function
  int all_loops_ = 0;       // and in those around it
  std::vector<Failure> later_;
};

template <typename T>
T* Parser::make(ExpressionKind kind, uint32_t offset) {
  T* node = heap_.make<T>();
  node->kind = kind;
  node->offset = offset;
  return node;
}

template <typename T>
T* Parser::make(StatementKind kind, uint32_t offset) {
  T* node = heap_.make<T>();
  node->kind = kind;
  node->offset = offset;
  return node;
}

}  // namespace slip::text::jinja
