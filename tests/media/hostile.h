// The table of hostile pictures: cut off, bombs, lying headers, wrong kinds, polyglots. Each is made by code,
// so that the tree holds none of them and a reader sees what is wrong with it.
#pragma once

#include <string>
#include <vector>

#include "media/refused.h"

namespace slip::media::test {

struct Hostile {
  std::string name;
  std::string file;
  std::vector<Fault> faults;  // any of these may come out; kNone where the picture is sound after all
};

std::vector<Hostile> hostile_files();

}  // namespace slip::media::test
