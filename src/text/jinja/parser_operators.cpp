// The parser's part for operators: one function for each level of precedence, loosest first.
#include "text/jinja/parser.h"

namespace slip::text::jinja {
namespace {

Comparison comparison_of(TokenKind kind, bool& is_comparison) {
  is_comparison = true;
  switch (kind) {
    case TokenKind::kEq: return Comparison::kEqual;
    case TokenKind::kNe: return Comparison::kNotEqual;
    case TokenKind::kLt: return Comparison::kLess;
    case TokenKind::kLe: return Comparison::kLessOrEqual;
    case TokenKind::kGt: return Comparison::kGreater;
    case TokenKind::kGe: return Comparison::kGreaterOrEqual;
    default: is_comparison = false; return Comparison::kEqual;
  }
}

}  // namespace

Expression* Parser::binary(ExpressionKind kind, Operator op, uint32_t offset, Expression* left,
                           Expression* right) {
  auto* node = make<Binary>(kind, offset);
  node->op = op;
  node->left = left;
  node->right = right;
  return node;
}

Expression* Parser::expression() {
  const Depth depth(heap_);
  const size_t unknown_before = unknown_.size();
  const uint32_t offset = current_.offset;
  Expression* node = disjunction();
  while (take_name_if("if")) {
    auto* conditional = make<Conditional>(ExpressionKind::kConditional, offset);
    conditional->yes = node;
    conditional->test = disjunction();
    if (take_name_if("else")) conditional->no = expression();
    node = conditional;
    unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(unknown_before),
                   unknown_.end());  // may never be reached
  }
  return node;
}

Expression* Parser::disjunction() {
  Expression* left = conjunction();
  while (current_.is_name("or")) {
    const uint32_t offset = take().offset;
    left = binary(ExpressionKind::kOr, Operator::kAdd, offset, left, conjunction());
  }
  return left;
}

Expression* Parser::conjunction() {
  Expression* left = negation();
  while (current_.is_name("and")) {
    const uint32_t offset = take().offset;
    left = binary(ExpressionKind::kAnd, Operator::kAdd, offset, left, negation());
  }
  return left;
}

Expression* Parser::negation() {
  if (!current_.is_name("not")) return comparison();
  const Depth depth(heap_);
  auto* node = make<Unary>(ExpressionKind::kNot, take().offset);
  node->operand = negation();
  return node;
}

Expression* Parser::comparison() {
  const uint32_t offset = current_.offset;
  Expression* first = sum();
  std::vector<Compare::Operand> operands;
  while (true) {
    bool is_comparison = false;
    const Comparison comparison = comparison_of(current_.kind, is_comparison);
    if (is_comparison) {
      advance();
      operands.push_back({comparison, sum()});
    } else if (take_name_if("in")) {
      operands.push_back({Comparison::kIn, sum()});
    } else if (current_.is_name("not") && peek().is_name("in")) {
      advance();
      advance();
      operands.push_back({Comparison::kNotIn, sum()});
    } else {
      break;
    }
  }
  if (operands.empty()) return first;
  auto* node = make<Compare>(ExpressionKind::kCompare, offset);
  node->first = first;
  node->operands = keep(operands);
  return node;
}

Expression* Parser::sum() {
  Expression* left = concatenation();
  while (current_.kind == TokenKind::kAdd || current_.kind == TokenKind::kSub) {
    const Token token = take();
    const Operator op = token.kind == TokenKind::kAdd ? Operator::kAdd : Operator::kSubtract;
    left = binary(ExpressionKind::kArithmetic, op, token.offset, left, concatenation());
  }
  return left;
}

Expression* Parser::concatenation() {
  const uint32_t offset = current_.offset;
  std::vector<Expression*> items{product()};
  while (take_if(TokenKind::kTilde)) items.push_back(product());
  if (items.size() == 1) return items[0];
  auto* node = make<Sequence>(ExpressionKind::kConcatenation, offset);
  node->items = keep_nodes(items);
  return node;
}

Expression* Parser::product() {
  Expression* left = power();
  while (true) {
    Operator op = Operator::kMultiply;
    switch (current_.kind) {
      case TokenKind::kMul: break;
      case TokenKind::kDiv: op = Operator::kDivide; break;
      case TokenKind::kFloordiv: op = Operator::kFloorDivide; break;
      case TokenKind::kMod: op = Operator::kModulo; break;
      default: return left;
    }
    const uint32_t offset = take().offset;
    left = binary(ExpressionKind::kArithmetic, op, offset, left, power());
  }
}

Expression* Parser::power() {
  Expression* left = unary();
  while (current_.kind == TokenKind::kPow) {
    const uint32_t offset = take().offset;
    left = binary(ExpressionKind::kArithmetic, Operator::kPower, offset, left, unary());
  }
  return left;
}

}  // namespace slip::text::jinja
