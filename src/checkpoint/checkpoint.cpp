#include "checkpoint/checkpoint.h"

#include "checkpoint/bind.h"
#include "checkpoint/config.h"
#include "checkpoint/folder.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/limits.h"

namespace slip::checkpoint {

std::unique_ptr<Checkpoint> open(const std::string& folder) {
  const std::string config_path = find_config(folder);
  ParsedConfig parsed = parse_config(read_text_file(config_path, kLargestConfig), config_path);
  FolderTensors mapped = map_tensors(folder);
  Bound bound = bind(
      mapped.tensors, parsed.config,
      {.where = mapped.where, .quantization = std::move(parsed.quantization), .tied_head = parsed.tied_head});

  auto checkpoint = std::make_unique<Checkpoint>();
  checkpoint->generation = read_generation_config(folder, parsed.config);
  checkpoint->config = std::move(parsed.config);
  checkpoint->weights = std::move(bound.weights);
  checkpoint->not_loaded = std::move(bound.not_loaded);
  checkpoint->format = std::move(bound.format);
  mapped.move_into(*checkpoint, folder);
  return checkpoint;
}

}  // namespace slip::checkpoint
