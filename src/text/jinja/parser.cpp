#include "text/jinja/parser.h"

#include <utility>

namespace slip::text::jinja {

Parser::Parser(std::string_view source, Heap& heap) : heap_(heap), lexer_(source, heap), scopes_(heap) {
  current_ = lexer_.next();
}

Parsed Parser::parse() {
  Parsed parsed;
  parsed.body = body({});
  parsed.layout = scopes_.layout();
  if (!unknown_.empty()) {
    refuse_later(Fault::kTemplateAssertionError, unknown_.front().offset, unknown_.front().message);
  }
  if (!later_.empty()) throw later_.front();
  scopes_.resolve();
  parsed.globals = scopes_.globals();
  parsed.blocks = std::move(blocks_);
  return parsed;
}

void Parser::advance() {
  heap_.charge();
  if (has_next_) {
    current_ = next_;
    has_next_ = false;
  } else {
    current_ = lexer_.next();
  }
}

const Token& Parser::peek() {
  if (!has_next_) {
    next_ = lexer_.next();
    has_next_ = true;
  }
  return next_;
}

Token Parser::take() {
  Token token = current_;
  advance();
  return token;
}

bool Parser::take_if(TokenKind kind) {
  if (current_.kind != kind) return false;
  advance();
  return true;
}

bool Parser::take_name_if(std::string_view name) {
  if (!current_.is_name(name)) return false;
  advance();
  return true;
}

Token Parser::expect(TokenKind kind) {
  if (current_.kind == kind) return take();
  if (current_.kind == TokenKind::kEnd) {
    refuse(fmt::format("unexpected end of template, expected '{}'.", describe(kind)));
  }
  refuse(fmt::format("expected token '{}', got '{}'", describe(kind), describe(current_)));
}

void Parser::expect_name(std::string_view name) {
  if (take_name_if(name)) return;
  if (current_.kind == TokenKind::kEnd) {
    refuse(fmt::format("unexpected end of template, expected '{}'.", name));
  }
  refuse(fmt::format("expected token '{}', got '{}'", name, describe(current_)));
}

void Parser::refuse(uint32_t offset, std::string message) const {
  throw Failure{Fault::kTemplateSyntaxError, std::move(message), offset};
}

void Parser::refuse_later(Fault fault, uint32_t offset, std::string message) {
  later_.push_back({fault, std::move(message), offset});
}

/// An empty name: the template ended.
void Parser::refuse_tag(std::string_view name) const {
  std::string message =
      name.empty() ? "Unexpected end of template." : fmt::format("Encountered unknown tag '{}'.", name);
  if (!end_tags_.empty() && !end_tags_.back().empty()) {
    std::string tags;
    for (const std::string_view tag : end_tags_.back()) {
      tags += fmt::format("{}'{}'", tags.empty() ? "" : " or ", tag);
    }
    message += fmt::format(" Jinja was looking for the following tags: {}.", tags);
  }
  if (!open_tags_.empty()) {
    message += fmt::format(" The innermost block that needs to be closed is '{}'.", open_tags_.back());
  }
  refuse(current_.offset, std::move(message));
}

}  // namespace slip::text::jinja
