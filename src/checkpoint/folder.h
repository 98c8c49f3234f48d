// A checkpoint folder on disk: which files hold the weights. One `model.safetensors`, or shards that
// `model.safetensors.index.json` names. Everything else in the folder is left alone, and where the weights
// are not what slipstream reads, the message says what is there instead.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_set.h"

namespace slip::checkpoint {

/// Throws Error(kBadFile) unless `folder` is a folder with a config.json in it; returns that file's path.
std::string find_config(const std::string& folder);

struct FolderTensors {
  std::string where;  // the file, or the index of the shards: for messages about tensors that are in no file
  TensorSet tensors;  // views of `files`
  std::vector<std::unique_ptr<MappedFile>> files;

  /// Hands tensors and files over, with the folder's name and size.
  void move_into(CheckpointFiles& opened, const std::string& folder);
};

/// Maps the weights of the folder. Throws Error(kBadFile) naming the file and what is wrong with it.
FolderTensors map_tensors(const std::string& folder);

}  // namespace slip::checkpoint
