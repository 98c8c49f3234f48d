// From what people type to a repository: "google/gemma-4-E2B-it", "hf.co/user/repo", a URL, any of them with
// "@revision", and short names ("gemma-4-e2b", "gemma-4-31b:4bit") from one table. A pure function of the
// text; what the cache holds is not asked. docs/models.md prints the table, and a test compares both.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slip::hub {

/// A row of the table.
struct NamedModel {
  const char* name;        // "gemma-4-e2b:4bit"
  const char* repository;  // "mlx-community/gemma-4-e2b-it-4bit"
  const char* size;        // as Google calls it: "26B-A4B"
  int bits;                // of the weights
  uint64_t bytes;          // of the weights
  bool exact;              // false = bytes are "about"
  const char* drafter;     // repository of its assistant
  uint64_t drafter_bytes;
  const char* smaller;  // the name to take when this one does not fit; nullptr = there is none
  const char* dflash;   // repository of its DFlash drafter; nullptr = none is published
  uint64_t dflash_bytes;
};

std::span<const NamedModel> named_models();
/// The row with this short name, in any case, or nullptr.
const NamedModel* find_named(std::string_view name);
/// The row that leads to this repository, or nullptr.
const NamedModel* find_by_repository(std::string_view repository);
/// Memory that a model of the table needs with a short context, in GB.
int needed_gigabytes(const NamedModel& model);
/// The table as docs/models.md shows it.
std::string named_models_markdown();

struct ModelName {
  std::string repository;             // "google/gemma-4-E2B-it"; without a slash when only the name was given
  std::string revision;               // "" = none was given, which means main
  const NamedModel* named = nullptr;  // the table's row, when a short name was typed

  bool has_owner() const { return repository.find('/') != std::string::npos; }
  std::string revision_or_main() const { return revision.empty() ? "main" : revision; }
};

/// `endpoint` is a host that URLs may name besides huggingface.co. Throws Error(kUsage) that says what is
/// wrong with the name.
ModelName parse_model_name(std::string_view text, std::string_view endpoint = "");

/// Whether a server or a person may name a repository like this.
bool is_repository(std::string_view text);
bool is_revision(std::string_view text);

/// "gemma-4-e2" -> "gemma-4-e2b": names of the table and of `others` that are close, the closest first.
std::vector<std::string> similar_names(std::string_view text, std::span<const std::string> others);

}  // namespace slip::hub
