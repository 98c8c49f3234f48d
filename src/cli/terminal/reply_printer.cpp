#include "cli/terminal/reply_printer.h"

#include <fmt/format.h>

#include "cli/terminal/output.h"

namespace slip::cli {
namespace {

using Kind = text::ReplyEvent::Kind;

constexpr const char* kDim = "\x1b[2m";
constexpr const char* kPlain = "\x1b[0m";

bool obeyed(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (obeyed(c)) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string ReplyPrinter::print(std::span<const text::ReplyEvent> events, const Paint& paint) {
  std::string out;
  for (const text::ReplyEvent& event : events) {
    const bool reasoning = event.kind == Kind::kReasoning;
    if (reasoning && !options_.thinking) {
      hidden_ += event.text.size();
      continue;
    }
    if (reasoning != in_reasoning_ || event.kind == Kind::kToolCall) break_line(out);
    in_reasoning_ = reasoning;
    if (event.kind == Kind::kToolCall) {
      append(fmt::format("[calls {} {}]\n", event.name, event.arguments), false, paint, out);
    } else {
      append(event.text, reasoning, paint, out);
    }
  }
  if (out.empty() && paint) out = paint("");
  return out;
}

void ReplyPrinter::append(std::string_view text, bool dim, const Paint& paint, std::string& out) {
  if (text.empty()) return;
  at_line_start_ = text.back() == '\n';
  printed_ = true;
  const std::string safe = options_.terminal ? without_controls(text) : std::string(text);
  const std::string painted = paint ? paint(safe) : safe;
  out += dim && options_.terminal ? fmt::format("{}{}{}", kDim, painted, kPlain) : painted;
}

void ReplyPrinter::break_line(std::string& out) {
  if (!at_line_start_) out += '\n';
  at_line_start_ = true;
}

}  // namespace slip::cli
