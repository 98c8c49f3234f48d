#include "checkpoint/draft_kind.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/folder.h"
#include "checkpoint/json_text.h"
#include "checkpoint/limits.h"

namespace slip::checkpoint {

namespace {

/// Names of what require_kind() may ask for and find.
const char* name_of(DraftKind kind) {
  switch (kind) {
    case DraftKind::kAssistant: return "a Gemma 4 assistant";
    case DraftKind::kDflash: return "a DFlash drafter";
    case DraftKind::kTarget: return "a Gemma 4 model";
    case DraftKind::kUnknown: break;
  }
  return "something else";
}

bool is_block_drafter(const JsonObject& config) {
  // The speculators format keeps its facts elsewhere, DeepSeek's exports have the taps at the top.
  for (const char* key :
       {"dflash_config", "speculators_config", "speculators_model_type", "target_layer_ids"}) {
    if (config.has(key)) return true;
  }
  for (const std::string& name : config.texts("architectures").value_or(std::vector<std::string>{})) {
    if (name.find("DFlash") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

DraftKind kind_of_config(const JsonObject& config) {
  if (is_block_drafter(config)) return DraftKind::kDflash;
  const std::string type = config.text("model_type").value_or("");
  if (type == "gemma4_assistant" || type == "gemma4_unified_assistant") return DraftKind::kAssistant;
  for (const char* model : {"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"}) {
    if (type == model) return DraftKind::kTarget;
  }
  return DraftKind::kUnknown;
}

DraftKind kind_of_draft_folder(const std::string& folder) {
  const std::string path = find_config(folder);
  const nlohmann::json document = parse_json(read_text_file(path, kLargestConfig), path);
  return kind_of_config(JsonObject(document, path));
}

void require_kind(const JsonObject& config, DraftKind wanted) {
  const DraftKind found = kind_of_config(config);
  if (found == wanted) return;
  const std::string type = config.text("model_type").value_or("");
  if (found == DraftKind::kUnknown) {
    fail_file("{}: model_type is {}, so this is not {}; give the folder of one", config.file(),
              in_quotes(type), name_of(wanted));
  }
  fail_file("{}: this is {} ({}), not {}; give the folder of one", config.file(), name_of(found),
            in_quotes(type), name_of(wanted));
}

}  // namespace slip::checkpoint
