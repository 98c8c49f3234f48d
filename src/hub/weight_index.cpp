#include "hub/weight_index.h"

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/json_text.h"

namespace slip::hub {
namespace {

constexpr size_t kLargestIndex = size_t{64} << 20;
constexpr size_t kMostShards = 1000;

bool is_file_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

std::vector<std::string> parse_weight_index(std::string_view text, const std::string& file) {
  const nlohmann::json document = checkpoint::parse_json(text, file);
  const auto table = checkpoint::JsonObject(document, file).object("weight_map");
  if (!table) fail_file("{}: weight_map is missing", file);
  std::set<std::string> shards;
  for (const std::string& tensor : table->keys()) {
    const auto shard = table->text(tensor);
    if (!shard || !is_file_name(*shard)) {
      fail_file("{}: tensor {} is in {}, which is not a file name in this folder", file,
                checkpoint::in_quotes(tensor), checkpoint::in_quotes(shard.value_or("")));
    }
    shards.insert(*shard);
    if (shards.size() > kMostShards) fail_file("{}: names more than {} shards", file, kMostShards);
  }
  if (shards.empty()) fail_file("{}: weight_map is empty", file);
  return {shards.begin(), shards.end()};
}

std::vector<std::string> read_weight_index(const std::string& path) {
  return parse_weight_index(read_text_file(path, kLargestIndex), path);
}

}  // namespace slip::hub
