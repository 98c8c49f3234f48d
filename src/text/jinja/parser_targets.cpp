// The parser's part for what gets a value: targets of `set` and `for`, and parameters of macros.
#include "text/jinja/parser.h"

namespace slip::text::jinja {

Target* Parser::name_target(const Token& token, Stored stored) {
  auto* made = heap_.make<Target>();
  made->offset = token.offset;
  made->attribute = text_value(token.text);
  made->slot = scopes_.declare(token.text, stored);
  if (token.text == "loop" && all_loops_ > 0) {
    refuse_later(Fault::kTemplateAssertionError, token.offset,
                 "Can't assign to special loop variable in for-loop target");
  }
  return made;
}

Target* Parser::assignable(Stored stored, bool with_namespace) {
  const Depth depth(heap_);
  const Token token = current_;
  if (token.kind == TokenKind::kLparen) {
    advance();
    Target* made = target(stored, with_namespace, {});
    expect(TokenKind::kRparen);
    return made;
  }
  static constexpr std::string_view kConstants[] = {"true", "True", "false", "False", "none", "None"};
  bool is_name = token.kind == TokenKind::kName;
  for (const std::string_view constant : kConstants) is_name = is_name && token.text != constant;
  if (!is_name) {
    const Expression* node = primary();
    const bool constant = node->kind == ExpressionKind::kConstant;
    refuse(token.offset, fmt::format("can't assign to '{}'", constant ? "const" : "expression"));
  }
  advance();
  if (!with_namespace || !take_if(TokenKind::kDot)) return name_target(token, stored);
  auto* made = heap_.make<Target>();
  made->kind = Target::Kind::kNamespace;
  made->offset = token.offset;
  made->space = scopes_.read(token.text, token.offset);
  made->attribute = text_value(expect(TokenKind::kName).text);
  return made;
}

/// Names with commas between them, for a tuple; or one name.
Target* Parser::target(Stored stored, bool with_namespace, std::string_view end_name) {
  const uint32_t offset = current_.offset;
  std::vector<Target*> parts;
  bool is_tuple = false;
  while (true) {
    if (!parts.empty()) expect(TokenKind::kComma);
    if (at_tuple_end(end_name)) break;
    parts.push_back(assignable(stored, with_namespace));
    if (current_.kind != TokenKind::kComma) break;
    is_tuple = true;
  }
  if (!is_tuple && !parts.empty()) return parts[0];
  if (!is_tuple) refuse(fmt::format("Expected an expression, got '{}'", describe(current_)));
  auto* made = heap_.make<Target>();
  made->kind = Target::Kind::kTuple;
  made->offset = offset;
  made->parts = keep_nodes(parts);
  return made;
}

void Parser::stored(const Target& target) {
  if (target.kind == Target::Kind::kSlot) scopes_.store(target.attribute.view(), in_branch_);
  for (const Target* part : target.parts) stored(*part);
}

void Parser::redeclare(Target& target) {
  if (target.kind == Target::Kind::kSlot) {
    target.slot = scopes_.declare(target.attribute.view(), Stored::kAlways);
  }
  for (Target* part : target.parts) redeclare(*part);
}

std::span<const MacroDefinition::Parameter> Parser::signature() {
  std::vector<MacroDefinition::Parameter> parameters;
  expect(TokenKind::kLparen);
  while (current_.kind != TokenKind::kRparen) {
    if (!parameters.empty()) expect(TokenKind::kComma);
    const Token name = expect(TokenKind::kName);
    MacroDefinition::Parameter parameter{text_value(name.text), scopes_.declare(name.text, Stored::kAlways),
                                         nullptr};
    if (take_if(TokenKind::kAssign)) {
      parameter.standard = expression();
    } else if (!parameters.empty() && parameters.back().standard != nullptr) {
      refuse("non-default argument follows default argument");
    }
    parameters.push_back(parameter);
  }
  expect(TokenKind::kRparen);
  return keep(parameters);
}

}  // namespace slip::text::jinja
