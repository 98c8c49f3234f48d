// The parser's part for what operators work on: literals, names, and what is attached to them.
#include "text/jinja/parser.h"

namespace slip::text::jinja {
namespace {

LoopField loop_field(std::string_view name) {
  static constexpr std::pair<std::string_view, LoopField> kFields[] = {
      {"index", LoopField::kIndex},       {"index0", LoopField::kIndex0},
      {"revindex", LoopField::kRevindex}, {"revindex0", LoopField::kRevindex0},
      {"first", LoopField::kFirst},       {"last", LoopField::kLast},
      {"length", LoopField::kLength},     {"previtem", LoopField::kPrevitem},
      {"nextitem", LoopField::kNextitem}, {"depth", LoopField::kDepth},
      {"depth0", LoopField::kDepth0},     {"cycle", LoopField::kCycle},
      {"changed", LoopField::kChanged},
  };
  for (const auto& [known, field] : kFields) {
    if (name == known) return field;
  }
  return LoopField::kNone;
}

}  // namespace

Expression* Parser::unary(bool with_filter) {
  Expression* node = nullptr;
  if (current_.kind == TokenKind::kSub || current_.kind == TokenKind::kAdd) {
    const Depth depth(heap_);
    const Token token = take();
    const bool minus = token.kind == TokenKind::kSub;
    auto* sign = make<Unary>(minus ? ExpressionKind::kNegative : ExpressionKind::kPositive, token.offset);
    sign->operand = unary(false);
    node = sign;
  } else {
    node = primary();
  }
  node = postfix(node);
  return with_filter ? applications(node) : node;
}

Expression* Parser::primary() {
  const auto constant = [&](const Value& value, uint32_t offset) {
    auto* node = make<Constant>(ExpressionKind::kConstant, offset);
    node->value = value;
    return node;
  };
  const Token token = current_;
  switch (token.kind) {
    case TokenKind::kName:
      advance();
      if (token.text == "true" || token.text == "True") return constant(Value::of(true), token.offset);
      if (token.text == "false" || token.text == "False") return constant(Value::of(false), token.offset);
      if (token.text == "none" || token.text == "None") return constant(Value::none(), token.offset);
      return scopes_.read(token.text, token.offset);
    case TokenKind::kString: {
      TextBuilder out(heap_);
      Value value = Value::of(make_text(heap_, token.text));
      advance();
      if (current_.kind == TokenKind::kString) {
        out.append(token.text, Origin::kTemplate);
        while (current_.kind == TokenKind::kString) out.append(take().text, Origin::kTemplate);
        value = Value::of(make_text(heap_, out.view()));  // without room to grow, as others share it
      }
      return constant(value, token.offset);
    }
    case TokenKind::kNumber: advance(); return constant(token.value, token.offset);
    case TokenKind::kLparen: {
      advance();
      Expression* node = tuple(true, true);
      expect(TokenKind::kRparen);
      return node;
    }
    case TokenKind::kLbracket: return list_display();
    case TokenKind::kLbrace: return dict_display();
    default: refuse(fmt::format("unexpected '{}'", describe(token)));
  }
}

bool Parser::at_tuple_end(std::string_view end_name) const {
  switch (current_.kind) {
    case TokenKind::kVariableEnd:
    case TokenKind::kBlockEnd:
    case TokenKind::kRparen: return true;
    default: return !end_name.empty() && current_.is_name(end_name);
  }
}

/// An expression, or several with commas between them.
Expression* Parser::tuple(bool with_conditional, bool explicit_parentheses, std::string_view end_name) {
  const Depth depth(heap_);
  const uint32_t offset = current_.offset;
  std::vector<Expression*> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect(TokenKind::kComma);
    if (at_tuple_end(end_name)) break;
    items.push_back(with_conditional ? expression() : disjunction());
    if (current_.kind != TokenKind::kComma) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return items[0];
  if (!is_tuple && !explicit_parentheses) {
    refuse(fmt::format("Expected an expression, got '{}'", describe(current_)));
  }
  auto* node = make<Sequence>(ExpressionKind::kTuple, offset);
  node->items = keep_nodes(items);
  return node;
}

Expression* Parser::list_display() {
  const uint32_t offset = expect(TokenKind::kLbracket).offset;
  std::vector<Expression*> items;
  while (current_.kind != TokenKind::kRbracket) {
    if (!items.empty()) expect(TokenKind::kComma);
    if (current_.kind == TokenKind::kRbracket) break;
    items.push_back(expression());
  }
  expect(TokenKind::kRbracket);
  auto* node = make<Sequence>(ExpressionKind::kList, offset);
  node->items = keep_nodes(items);
  return node;
}

Expression* Parser::dict_display() {
  const uint32_t offset = expect(TokenKind::kLbrace).offset;
  std::vector<DictDisplay::Pair> pairs;
  while (current_.kind != TokenKind::kRbrace) {
    if (!pairs.empty()) expect(TokenKind::kComma);
    if (current_.kind == TokenKind::kRbrace) break;
    Expression* key = expression();
    expect(TokenKind::kColon);
    pairs.push_back({key, expression()});
  }
  expect(TokenKind::kRbrace);
  auto* node = make<DictDisplay>(ExpressionKind::kDict, offset);
  node->pairs = keep(pairs);
  return node;
}

Expression* Parser::postfix(Expression* node) {
  while (true) {
    if (current_.kind == TokenKind::kDot || current_.kind == TokenKind::kLbracket) {
      node = subscript(node);
    } else if (current_.kind == TokenKind::kLparen) {
      node = call(node);
    } else {
      return node;
    }
  }
}

Expression* Parser::applications(Expression* node) {
  while (true) {
    if (current_.kind == TokenKind::kPipe) {
      node = filters(node, false);
    } else if (current_.is_name("is")) {
      node = test(node);
    } else if (current_.kind == TokenKind::kLparen) {
      node = call(node);
    } else {
      return node;
    }
  }
}

Expression* Parser::subscript(Expression* node) {
  const Token token = take();
  if (token.kind == TokenKind::kDot) {
    const Token name = current_;
    if (name.kind == TokenKind::kName) {
      advance();
      auto* attribute = make<Attribute>(ExpressionKind::kAttribute, token.offset);
      attribute->subject = node;
      attribute->name = text_value(name.text);
      attribute->loop_field = loop_field(name.text);
      attribute->of_string = find_method(Kind::kString, name.text);
      attribute->of_list = find_method(Kind::kList, name.text);
      attribute->of_dict = find_method(Kind::kDict, name.text);
      return attribute;
    }
    if (name.kind != TokenKind::kNumber || !name.value.is(Kind::kInt)) refuse("expected name or number");
    advance();
    auto* item = make<Item>(ExpressionKind::kItem, token.offset);
    auto* key = make<Constant>(ExpressionKind::kConstant, name.offset);
    key->value = name.value;
    item->subject = node;
    item->key = key;
    return item;
  }
  std::vector<Expression*> keys;
  bool is_slice = false;
  Expression* last = nullptr;
  while (current_.kind != TokenKind::kRbracket) {
    if (last != nullptr) expect(TokenKind::kComma);
    last = subscribed(node, token.offset, is_slice);
    keys.push_back(last);
  }
  expect(TokenKind::kRbracket);
  if (keys.size() == 1 && is_slice) return last;
  if (is_slice) refuse(token.offset, "a slice among several keys is not supported");
  auto* item = make<Item>(ExpressionKind::kItem, token.offset);
  item->subject = node;
  item->key = last;
  if (keys.size() != 1) {
    auto* all = make<Sequence>(ExpressionKind::kTuple, token.offset);
    all->items = keep_nodes(keys);
    item->key = all;
  }
  return item;
}

/// What stands between brackets: a key, or a slice of `subject`.
Expression* Parser::subscribed(Expression* subject, uint32_t offset, bool& is_slice) {
  const auto absent = [&] {
    return current_.kind == TokenKind::kColon || current_.kind == TokenKind::kRbracket ||
           current_.kind == TokenKind::kComma;
  };
  Expression* from = nullptr;
  if (current_.kind != TokenKind::kColon) {
    from = expression();
    if (current_.kind != TokenKind::kColon) return from;
  }
  advance();
  is_slice = true;
  auto* slice = make<Slice>(ExpressionKind::kSlice, offset);
  slice->subject = subject;
  slice->from = from;
  if (!absent()) slice->to = expression();
  if (take_if(TokenKind::kColon) && !absent()) slice->step = expression();
  return slice;
}

Expression* Parser::call(Expression* callee) {
  auto* node = make<Call>(ExpressionKind::kCall, current_.offset);
  node->callee = callee;
  node->arguments = arguments();
  return node;
}

ArgumentList Parser::arguments() {
  const Depth depth(heap_);
  const uint32_t offset = expect(TokenKind::kLparen).offset;
  ArgumentList list;
  std::vector<Expression*> positional;
  std::vector<KeywordArgument> keywords;
  const auto ensure = [&](bool holds) {
    if (!holds) refuse(offset, "invalid syntax for function call expression");
  };
  bool needs_comma = false;
  while (current_.kind != TokenKind::kRparen) {
    if (needs_comma) {
      expect(TokenKind::kComma);
      if (current_.kind == TokenKind::kRparen) break;
    }
    if (take_if(TokenKind::kMul)) {
      ensure(list.more == nullptr && list.more_keywords == nullptr);
      list.more = expression();
    } else if (take_if(TokenKind::kPow)) {
      ensure(list.more_keywords == nullptr);
      list.more_keywords = expression();
    } else if (current_.kind == TokenKind::kName && peek().kind == TokenKind::kAssign) {
      ensure(list.more_keywords == nullptr);
      const Value name = text_value(take().text);
      advance();
      keywords.push_back({name, expression()});
    } else {
      ensure(list.more == nullptr && list.more_keywords == nullptr && keywords.empty());
      positional.push_back(expression());
    }
    needs_comma = true;
  }
  expect(TokenKind::kRparen);
  list.positional = keep_nodes(positional);
  list.keywords = keep(keywords);
  return list;
}

std::string_view Parser::dotted_name() {
  std::string name(expect(TokenKind::kName).text);
  while (take_if(TokenKind::kDot)) {
    name += '.';
    name += expect(TokenKind::kName).text;
  }
  return heap_.copy(std::string_view(name));
}

Application* Parser::filters(Expression* subject, bool start_inline) {
  Application* node = nullptr;
  while (current_.kind == TokenKind::kPipe || start_inline) {
    if (!start_inline) advance();
    start_inline = false;
    auto* filter = make<Application>(ExpressionKind::kFilter, current_.offset);
    filter->subject = node == nullptr ? subject : node;
    filter->name = dotted_name();
    filter->builtin = find_filter(filter->name);
    if (current_.kind == TokenKind::kLparen) filter->arguments = arguments();
    if (filter->builtin == nullptr && !is_soft_) {
      unknown_.push_back({filter->offset, fmt::format("No filter named '{}'.", filter->name)});
    }
    node = filter;
  }
  return node;
}

Expression* Parser::test(Expression* subject) {
  const uint32_t offset = take().offset;
  const bool negated = take_name_if("not");
  auto* node = make<Application>(ExpressionKind::kTest, offset);
  node->subject = subject;
  node->name = dotted_name();
  node->builtin = find_test(node->name);
  switch (current_.kind) {
    case TokenKind::kLparen: node->arguments = arguments(); break;
    case TokenKind::kName:
      if (current_.text == "else" || current_.text == "or" || current_.text == "and") break;
      if (current_.text == "is") refuse("You cannot chain multiple tests with is");
      [[fallthrough]];
    case TokenKind::kString:
    case TokenKind::kNumber:
    case TokenKind::kLbracket:
    case TokenKind::kLbrace: {
      Expression* argument = primary();
      node->arguments.positional = keep_nodes(std::vector<Expression*>{postfix(argument)});
      break;
    }
    default: break;
  }
  if (node->builtin == nullptr && !is_soft_) {
    unknown_.push_back({offset, fmt::format("No test named '{}'.", node->name)});
  }
  if (!negated) return node;
  auto* inverse = make<Unary>(ExpressionKind::kNot, offset);
  inverse->operand = node;
  return inverse;
}

}  // namespace slip::text::jinja
