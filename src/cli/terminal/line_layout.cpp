#include "cli/terminal/line_layout.h"

#include <algorithm>

#include "cli/terminal/display_width.h"

namespace slip::cli {

LineLayout lay_out(std::string_view prompt, std::string_view text, size_t cursor, ScreenSize screen) {
  const int width = std::max(screen.columns, 2);
  const int indent = std::min(columns_of(prompt), width - 2);
  LineLayout layout;
  layout.rows.emplace_back(prompt);
  int column = indent;
  const auto new_row = [&](int spaces) {
    layout.rows.emplace_back(static_cast<size_t>(spaces), ' ');
    column = spaces;
  };
  const auto note_cursor = [&] {
    if (column >= width) new_row(0);
    layout.cursor_row = static_cast<int>(layout.rows.size()) - 1;
    layout.cursor_column = column;
  };
  for (size_t at = 0; at < text.size();) {
    if (at == cursor) note_cursor();
    const Cluster cluster = first_cluster(text.substr(at));
    if (text[at] == '\n') {
      new_row(indent);
    } else {
      if (column + cluster.columns > width) new_row(0);
      layout.rows.back() +=
          text[at] == '\t' ? std::string(kTabColumns, ' ') : std::string(text.substr(at, cluster.bytes));
      column += cluster.columns;
    }
    at += cluster.bytes;
  }
  if (cursor >= text.size()) note_cursor();

  const int most = std::max(screen.rows, 1);
  const int first = std::max(0, layout.cursor_row - most + 1);
  layout.rows.erase(layout.rows.begin(), layout.rows.begin() + first);
  layout.cursor_row -= first;
  if (static_cast<int>(layout.rows.size()) > most) layout.rows.resize(static_cast<size_t>(most));
  return layout;
}

}  // namespace slip::cli
