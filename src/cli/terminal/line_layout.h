// Where edited text stands on a screen: cut into rows that fit, with the cursor's place among them. A pure
// function, so that wrapping, wide characters and long texts can be tested without a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace slip::cli {

struct LineLayout {
  std::vector<std::string> rows;  // what to write, without line ends; never empty
  int cursor_row = 0, cursor_column = 0;
};

struct ScreenSize {
  int columns = 80, rows = 24;
};

/// The first row begins with `prompt`, and rows after a line break with as many spaces. Of a text higher than
/// the screen only rows around the cursor are laid out.
LineLayout lay_out(std::string_view prompt, std::string_view text, size_t cursor, ScreenSize screen);

}  // namespace slip::cli
