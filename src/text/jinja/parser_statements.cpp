// The parser's half for statements: what stands between {% and %}, and the text around it.
#include <array>
#include <utility>

#include "text/jinja/parser.h"

namespace slip::text::jinja {
namespace {

/// Puts a value back when it goes.
template <typename T>
class Restored {
 public:
  Restored(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  ~Restored() { place_ = before_; }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  T& place_;
  T before_;
};

}  // namespace

/// Statements and text until one of the tags, which is left standing, or the end of the template.
Body Parser::body(EndTags ends) {
  const Depth depth(heap_);
  end_tags_.push_back(ends);
  std::vector<Statement*> statements;
  while (current_.kind != TokenKind::kEnd) {
    if (current_.kind == TokenKind::kData) {
      auto* data = make<Data>(StatementKind::kData, current_.offset);
      data->text = current_.value.text();
      statements.push_back(data);
      advance();
    } else if (current_.kind == TokenKind::kVariableBegin) {
      auto* print = make<Print>(StatementKind::kPrint, current_.offset);
      advance();
      print->value = tuple();
      statements.push_back(print);
      expect(TokenKind::kVariableEnd);
    } else {
      expect(TokenKind::kBlockBegin);
      bool ended = false;
      for (const std::string_view end : ends) ended = ended || current_.is_name(end);
      if (ended) break;
      statements.push_back(statement());
      expect(TokenKind::kBlockEnd);
    }
  }
  if (current_.kind == TokenKind::kEnd && !ends.empty()) refuse_tag({});
  end_tags_.pop_back();
  return {.statements = keep_nodes(statements), .slots = {}};
}

Body Parser::block_body(EndTags ends) {
  take_if(TokenKind::kColon);
  expect(TokenKind::kBlockEnd);
  return body(ends);
}

Body Parser::scoped_body(std::string_view end) {
  scopes_.enter_scope();
  const std::array ends{end};
  Body made = block_body(ends);
  advance();
  made.slots = scopes_.leave();
  return made;
}

Statement* Parser::statement() {
  if (current_.kind != TokenKind::kName) refuse("tag name expected");
  const std::string_view tag = current_.text;
  open_tags_.push_back(tag);
  Statement* made = tag_statement(tag);
  open_tags_.pop_back();
  return made;
}

Statement* Parser::tag_statement(std::string_view tag) {
  if (tag == "if") return if_statement();
  const bool keeps_scope = tag == "set" || tag == "print" || tag == "for" || tag == "call";
  const Restored<bool> hard(is_soft_, is_soft_ && keeps_scope);
  const Restored<bool> branch(in_branch_, in_branch_ && (keeps_scope || tag == "macro"));
  if (tag == "for") return for_statement();
  if (tag == "set") return set_statement();
  if (tag == "macro") return macro_statement();
  if (tag == "call") return call_block();
  if (tag == "filter") return filter_block();
  if (tag == "with") return with_statement();
  if (tag == "print") return print_statement();
  if (tag == "block") return block_statement();
  if (tag == "autoescape") return scoped_statement("endautoescape", true);
  if (tag == "generation") return scoped_statement("endgeneration", false);
  if (tag == "break" || tag == "continue") return jump_statement();
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") return include_statement();
  open_tags_.pop_back();
  refuse_tag(tag);
}

Statement* Parser::if_statement() {
  const Restored<bool> soft(is_soft_, true);
  const Restored<bool> branch(in_branch_, true);
  auto* node = make<If>(StatementKind::kIf, take().offset);
  static constexpr std::array<std::string_view, 3> kEnds{"elif", "else", "endif"};
  static constexpr std::array<std::string_view, 1> kEnd{"endif"};
  std::vector<If::Branch> branches;
  while (true) {
    Expression* test = tuple(false);
    branches.push_back({test, block_body(kEnds)});
    const Token tag = take();
    if (tag.text == "elif") continue;
    if (tag.text == "else") {
      node->otherwise = block_body(kEnd);
      advance();
    }
    break;
  }
  node->branches = keep(branches);
  return node;
}

Statement* Parser::for_statement() {
  auto* node = make<For>(StatementKind::kFor, take().offset);
  static constexpr std::array<std::string_view, 2> kEnds{"endfor", "else"};
  const Restored<int> all_loops(all_loops_, all_loops_ + 1);
  scopes_.enter_scope();  // of the target and the test
  node->target = target(Stored::kAlways, false, "in");
  expect_name("in");
  Scopes::Inside inside = scopes_.outside();
  node->iterable = tuple(false, false, "recursive");
  scopes_.back(inside);
  const Restored<bool> hard(is_soft_, false);
  const Restored<bool> straight(in_branch_, false);
  if (take_name_if("if")) node->test = expression();
  if (take_name_if("recursive")) {
    scopes_.become_function();
    redeclare(*node->target);
    node->recursive = scopes_.layout();
  }
  {
    const Restored<int> loops(loops_, node->recursive != nullptr ? 1 : loops_ + 1);
    scopes_.enter_scope();
    node->body = block_body(kEnds);
    if (scopes_.reads("loop") || node->recursive != nullptr) {
      node->loop_slot = scopes_.declare("loop", Stored::kAlways);
    }
    node->body.slots = scopes_.leave();
  }
  if (take().text == "else") {
    static constexpr std::array<std::string_view, 1> kEnd{"endfor"};
    scopes_.enter_else();
    node->otherwise = block_body(kEnd);
    advance();
    node->otherwise.slots = scopes_.leave();
  }
  scopes_.leave();
  return node;
}

Statement* Parser::set_statement() {
  const uint32_t offset = take().offset;
  Target* place = target(Stored::kMaybe, true);
  if (take_if(TokenKind::kAssign)) {
    auto* node = make<Assign>(StatementKind::kAssign, offset);
    node->target = place;
    node->value = tuple();
    stored(*place);
    return node;
  }
  stored(*place);
  const Restored<bool> hard(is_soft_, false);
  const Restored<bool> straight(in_branch_, false);
  auto* node = make<AssignBlock>(StatementKind::kAssignBlock, offset);
  node->target = place;
  node->filter = filters(nullptr, false);
  node->body = scoped_body("endset");
  return node;
}

void Parser::finish(MacroDefinition& macro, std::string_view end) {
  const Restored<int> loops(loops_, 0);
  const Restored<bool> hard(is_soft_, false);
  const Restored<bool> straight(in_branch_, false);
  const std::array ends{end};
  macro.body = block_body(ends);
  advance();
  for (const auto& parameter : macro.parameters) {
    macro.caller_is_parameter = macro.caller_is_parameter || parameter.name.view() == "caller";
  }
  const auto special = [&](std::string_view name) {
    return scopes_.reads(name) ? scopes_.declare(name, Stored::kAlways) : kNoSlot;
  };
  macro.caller_slot = special("caller");
  macro.varargs_slot = special("varargs");
  macro.kwargs_slot = special("kwargs");
  macro.layout = scopes_.layout();
  scopes_.leave();
}

Statement* Parser::macro_statement() {
  auto* node = make<MacroStatement>(StatementKind::kMacro, take().offset);
  const Token name = expect(TokenKind::kName);
  node->target = name_target(name, Stored::kMaybe);
  stored(*node->target);
  node->definition = heap_.make<MacroDefinition>();
  node->definition->name = name.text;
  scopes_.enter_function();
  node->definition->parameters = signature();
  finish(*node->definition, "endmacro");
  return node;
}

Statement* Parser::call_block() {
  auto* node = make<CallBlock>(StatementKind::kCallBlock, take().offset);
  node->definition = heap_.make<MacroDefinition>();
  scopes_.enter_function();
  if (current_.kind == TokenKind::kLparen) node->definition->parameters = signature();
  Scopes::Inside inside = scopes_.outside();
  Expression* call = expression();
  scopes_.back(inside);
  if (call->kind != ExpressionKind::kCall) refuse(node->offset, "expected call");
  node->call = static_cast<Call*>(call);
  finish(*node->definition, "endcall");
  return node;
}

Statement* Parser::filter_block() {
  auto* node = make<FilterBlock>(StatementKind::kFilterBlock, take().offset);
  node->filter = filters(nullptr, true);
  node->body = scoped_body("endfilter");
  return node;
}

Statement* Parser::with_statement() {
  auto* node = make<With>(StatementKind::kWith, take().offset);
  std::vector<Target*> targets;
  std::vector<Expression*> values;
  scopes_.enter_scope();
  while (current_.kind != TokenKind::kBlockEnd) {
    if (!targets.empty()) expect(TokenKind::kComma);
    targets.push_back(target(Stored::kAlways, false));
    expect(TokenKind::kAssign);
    Scopes::Inside inside = scopes_.outside();
    values.push_back(expression());
    scopes_.back(inside);
  }
  static constexpr std::array<std::string_view, 1> kEnd{"endwith"};
  node->body = block_body(kEnd);
  advance();
  node->body.slots = scopes_.leave();
  node->targets = keep_nodes(targets);
  node->values = keep_nodes(values);
  return node;
}

/// {% print a, b %}
Statement* Parser::print_statement() {
  auto* node = make<Scoped>(StatementKind::kScope, take().offset);
  std::vector<Statement*> statements;
  while (current_.kind != TokenKind::kBlockEnd) {
    if (!statements.empty()) expect(TokenKind::kComma);
    auto* print = make<Print>(StatementKind::kPrint, current_.offset);
    print->value = expression();
    statements.push_back(print);
  }
  node->body.statements = keep_nodes(statements);
  return node;
}

Statement* Parser::block_statement() {
  auto* node = make<Block>(StatementKind::kBlock, take().offset);
  node->name = expect(TokenKind::kName).text;
  node->sees_inside = take_name_if("scoped");
  const bool required = take_name_if("required");
  if (current_.kind == TokenKind::kSub) {
    refuse(
        "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an "
        "underscore instead.");
  }
  if (!block_names_.insert(node->name).second) {
    refuse_later(Fault::kTemplateAssertionError, node->offset,
                 fmt::format("block '{}' defined twice", node->name));
  }
  const Restored<int> loops(loops_, 0);
  if (node->sees_inside) {
    scopes_.enter_function();
  } else {
    scopes_.enter_block();
  }
  static constexpr std::array<std::string_view, 1> kEnd{"endblock"};
  node->body = block_body(kEnd);
  advance();
  take_name_if(node->name);
  node->layout = scopes_.layout();
  scopes_.leave();
  if (required) refuse_later(Fault::kTemplateRuntimeError, node->offset, "a required block has no override");
  blocks_.push_back(node);
  return node;
}

Statement* Parser::scoped_statement(std::string_view end, bool autoescape) {
  auto* node = make<Scoped>(autoescape ? StatementKind::kAutoescape : StatementKind::kScope, take().offset);
  if (autoescape) node->autoescape = expression();
  const Restored<int> loops(loops_, autoescape ? loops_ : 0);  // `generation` is a call block to jinja2
  node->body = scoped_body(end);
  return node;
}

Statement* Parser::jump_statement() {
  const Token token = take();
  const bool is_break = token.text == "break";
  if (loops_ == 0) {
    refuse_later(Fault::kSyntaxError, token.offset,
                 is_break ? "'break' outside loop" : "'continue' not properly in loop");
  }
  return make<Statement>(is_break ? StatementKind::kBreak : StatementKind::kContinue, token.offset);
}

/// Parsed as far as needed to find its end: whoever reaches one is told that there is nothing to load.
Statement* Parser::include_statement() {
  auto* node = make<Statement>(StatementKind::kInclude, take().offset);
  expression();
  while (current_.kind != TokenKind::kBlockEnd && current_.kind != TokenKind::kEnd) advance();
  return node;
}

}  // namespace slip::text::jinja
