// json.dumps() as Hugging Face calls it for `tojson`: no HTML escapes, ASCII only where asked.
#include <algorithm>
#include <cmath>

#include "text/jinja/dict.h"
#include "text/jinja/failure.h"
#include "text/jinja/print.h"

namespace slip::text::jinja {
namespace {

constexpr Origin kOurs = Origin::kTemplate;

class JsonPrinter {
 public:
  JsonPrinter(Heap& heap, const JsonStyle& style, TextBuilder& out) : heap_(heap), style_(style), out_(out) {}

  void print(const Value& value) {
    heap_.charge();
    switch (value.kind()) {
      case Kind::kNone: return ours("null");
      case Kind::kBool: return ours(value.truth() ? "true" : "false");
      case Kind::kInt:
      case Kind::kBigInt: return jinja::print(heap_, value, out_);
      case Kind::kFloat: return out_.append(number(value.real()), value.origin());
      case Kind::kString: return string(value.text());
      case Kind::kList:
      case Kind::kTuple: return list(value.items());
      case Kind::kDict: return dict(*value.dict());
      default: type_error("Object of type {} is not JSON serializable", type_name(value));
    }
  }

 private:
  void ours(std::string_view text) { out_.append(text, kOurs); }

  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_text(value);
  }

  void new_line() {
    if (!style_.indent) return;
    ours("\n");
    out_.append_times(*style_.indent, static_cast<size_t>(level_), kOurs);
  }

  void list(std::span<const Value> items) {
    if (items.empty()) return ours("[]");
    const Depth depth(heap_);
    ours("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) ours(style_.item_separator);
      new_line();
      print(items[i]);
    }
    --level_;
    new_line();
    ours("]");
  }

  void dict(const Dict& dict) {
    if (dict.size == 0) return ours("{}");
    const Depth depth(heap_);
    std::vector<const Entry*> entries;
    for (const Entry& entry : dict.all()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const Entry* a, const Entry* b) {
        return ordered(heap_, Order::kLess, a->key, b->key);
      });
    }
    ours("{");
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) ours(style_.item_separator);
      new_line();
      key(entries[i]->key);
      ours(style_.key_separator);
      print(entries[i]->value);
    }
    --level_;
    new_line();
    ours("}");
  }

  void key(const Value& value) {
    switch (value.kind()) {
      case Kind::kString: return string(value.text());
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kBigInt:
      case Kind::kFloat:
        ours("\"");
        print(value);
        return ours("\"");
      default: type_error("keys must be str, int, float, bool or None, not {}", type_name(value));
    }
  }

  void string(const Text& text) {
    heap_.charge_bytes(text.size);
    ours("\"");
    for_each_run(text, [&](std::string_view bytes, Origin origin) { characters(bytes, origin); });
    ours("\"");
  }

  void characters(std::string_view bytes, Origin origin) {
    size_t plain = 0;  // what needs no escape goes out in one piece
    size_t at = 0;
    const auto flush = [&] { out_.append(bytes.substr(plain, at - plain), origin); };
    while (at < bytes.size()) {
      const auto byte = static_cast<uint8_t>(bytes[at]);
      const bool escaped = byte < 0x20 || byte == '"' || byte == '\\' || (style_.ascii && byte >= 0x7F);
      if (!escaped) {
        ++at;
        continue;
      }
      flush();
      const Character character = character_at(bytes, at);
      escape(character.code, origin);
      at += character.size;
      plain = at;
    }
    flush();
  }

  void escape(char32_t code, Origin origin) {
    static constexpr std::string_view kNamed = "\"\\\b\f\n\r\t";
    static constexpr std::string_view kLetters = "\"\\bfnrt";
    const size_t named = code < 0x80 ? kNamed.find(static_cast<char>(code)) : std::string_view::npos;
    if (named != std::string_view::npos) {
      const char text[] = {'\\', kLetters[named]};
      return out_.append({text, 2}, origin);
    }
    const auto unit = [&](uint32_t bits) { out_.append(fmt::format("\\u{:04x}", bits), origin); };
    if (code < 0x10000) return unit(code);
    unit(0xD800 + ((code - 0x10000) >> 10));
    unit(0xDC00 + ((code - 0x10000) & 0x3FF));
  }

  Heap& heap_;
  const JsonStyle& style_;
  TextBuilder& out_;
  int level_ = 0;
};

}  // namespace

void print_json(Heap& heap, const Value& value, const JsonStyle& style, TextBuilder& out) {
  JsonPrinter(heap, style, out).print(value);
}

}  // namespace slip::text::jinja
