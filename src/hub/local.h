// From a name to a folder on this machine, without any request and without writing: what every command that
// takes -m asks first. A model is a folder, or a repository of the cache that this program or Hugging Face's
// put there. Cost: a few system calls when the name has its owner, one listing of the cache otherwise.
#pragma once

#include <string>
#include <vector>

#include "hub/environment.h"
#include "hub/names.h"

namespace slip::hub {

enum class Presence {
  kComplete,
  kPartial,  // some of its files are there; `missing` names the others
  kAbsent,
};

struct LocalModel {
  Presence presence = Presence::kAbsent;
  std::string repository;  // in the case the cache or the table has it
  std::string commit;
  std::string folder;  // of the snapshot; "" when absent
  std::vector<std::string> missing = {};
};

/// Throws Error(kBadFile) when a name without owner fits several cached models.
LocalModel find_local(const ModelName& name, const Environment& environment);

/// What a model needs and the folder does not have: config.json, and the weights that the index names.
std::vector<std::string> missing_files(const std::string& folder);

/// The folder of a model, given by its folder or its name. Throws Error(kBadFile) that says where it looked,
/// what resembles the name, and which command downloads it.
std::string resolve_model(const std::string& name, const Environment& environment = read_environment());

/// The folder of the assistant that belongs to a model, which is given by its folder or its name. Looks
/// beside a folder (<folder>-assistant), in it (<folder>/assistant), and in the cache for the model's name
/// with "-assistant" after it, of the same owner or Google's; a folder inside a cache knows its name from its
/// path. A converted model (name-4bit, name-mlx-8bit) also takes the assistant of the model it was made from,
/// and an assistant may be converted too (name-assistant-bf16). Empty when there is none; never throws
/// because of what it finds. Whether it fits is for open_assistant() to say.
std::string find_assistant(const std::string& model, const Environment& environment = read_environment());

/// The folder of the DFlash drafter that the table knows for a model, given by its folder in a cache or its
/// name, when the cache has it whole. Empty otherwise; never throws because of what it finds.
std::string find_dflash(const std::string& model, const Environment& environment = read_environment());

/// The repository of the assistant that a pull of this repository brings along; "" when none is known.
std::string assistant_repository(const std::string& repository);
/// The same for its DFlash drafter.
std::string dflash_repository(const std::string& repository);

}  // namespace slip::hub
