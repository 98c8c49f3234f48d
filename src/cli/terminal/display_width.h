// How wide text is on a terminal, in columns. A terminal draws East Asian characters and emoji two columns
// wide and combining marks on top of what stands before them; a line editor that counts otherwise puts the
// cursor in the wrong place. The ranges are those of Unicode's East Asian Width (wide and full) and its
// combining marks, coarse where scripts are rare. Independent of the locale.
#pragma once

#include <cstddef>
#include <string_view>

namespace slip::cli {

/// What the cursor moves over as one: a character and the marks on it, or emoji joined to one picture.
struct Cluster {
  size_t bytes = 0;
  int columns = 0;
};

/// Columns of a tab inside edited text, which is drawn as so many spaces.
inline constexpr int kTabColumns = 4;

/// The cluster at the start of `text`, which must not be empty. A byte that belongs to no character counts as
/// one column.
Cluster first_cluster(std::string_view text);

/// Where the cluster before `at` begins; 0 when there is none.
size_t cluster_before(std::string_view text, size_t at);

int columns_of(std::string_view text);

}  // namespace slip::cli
