#include "text/detokenizer.h"

#include "text/utf8.h"

namespace slip::text {
namespace {

void append_with_spaces(std::string_view piece, std::string& out) {
  constexpr std::string_view kMark = "\xE2\x96\x81";
  while (true) {
    const size_t mark = piece.find(kMark);
    out += piece.substr(0, mark);
    if (mark == std::string_view::npos) return;
    out += ' ';
    piece.remove_prefix(mark + kMark.size());
  }
}

}  // namespace

void StreamDecoder::feed(int id, std::string& out) {
  const std::string& piece = tokenizer_->piece(id);
  if (piece.empty() || (options_.skip_specials && tokenizer_->is_special(id))) return;
  const int byte = byte_value(piece);
  if (byte >= 0) {
    held_ += static_cast<char>(byte);
    return;
  }
  finish(out);
  append_with_spaces(piece, out);
}

void StreamDecoder::finish(std::string& out) {
  if (is_valid_utf8(held_)) {
    out += held_;
  } else {
    for (size_t i = 0; i < held_.size(); ++i) out += kReplacement;
  }
  held_.clear();
}

std::string StreamDecoder::feed(int id) {
  std::string out;
  feed(id, out);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  finish(out);
  return out;
}

}  // namespace slip::text
