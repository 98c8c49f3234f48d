// Checkpoint: a model folder opened and understood, nothing loaded yet. open() maps the files, reads the JSON
// beside them, binds tensor names to Weights and refuses, with a sentence that names file, tensor and fault,
// what it cannot trust. Backends then pack from `weights`; the Checkpoint must outlive that (and any matrix
// they keep a view of).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/tensor_set.h"
#include "model/config.h"
#include "model/weights.h"

namespace slip::checkpoint {

/// What generation_config.json says; config.json's ids where it is absent. Negative or zero = not given.
struct GenerationConfig {
  bool do_sample = false;
  float temperature = 1.0f;
  int top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  std::vector<int> stop_ids;
  std::vector<int> suppress_ids;
};

/// Tensors of the files that the text decoder does not use, grouped for people: {"vision_tower", 356, bytes}.
struct NotLoaded {
  std::string group;
  std::string reason;
  int tensors = 0;
  size_t bytes = 0;
};

/// What every opened folder has, of a model or of a drafter. Weights are views of `tensors`.
struct CheckpointFiles {
  std::string path;  // the folder, or "synthetic e2b"
  std::vector<NotLoaded> not_loaded;
  std::string format;  // "Hugging Face bf16", "MLX affine 4-bit, group 64"
  size_t file_bytes = 0;
  TensorSet tensors;
  std::vector<std::unique_ptr<MappedFile>> files;
};

struct Checkpoint : CheckpointFiles {
  model::Config config;
  GenerationConfig generation;
  model::Weights weights;
};

/// Opens a checkpoint folder. Throws Error(kBadFile).
std::unique_ptr<Checkpoint> open(const std::string& folder);

}  // namespace slip::checkpoint
