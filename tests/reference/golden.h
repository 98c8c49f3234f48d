// A golden case as the tests of drafters need it: its target run by the reference over the prompt and the
// greedy text, with the hidden states and taps on the way, and the results another implementation computed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "reference/target_run.h"

namespace slip::test {

using reference::Row;

inline const std::vector<std::string> kGoldenCases{"e2b", "dense", "moe", "unified"};

class Golden {
 public:
  explicit Golden(const std::string& name) : Golden(std::string(SLIP_GOLDEN), name) {}
  Golden(const std::string& parent, const std::string& name)
      : folder(parent + "/" + name),
        target(checkpoint::open(folder + "/target")),
        facts(nlohmann::json::parse(read_text_file(folder + "/expected.json"))),
        file_(folder + "/expected.safetensors") {
    checkpoint::add_safetensors(file_, tensors_);
  }

  int vocab() const { return target->config.vocab; }
  std::vector<int> tokens(const std::string& key) const { return facts.at(key).get<std::vector<int>>(); }

  /// A tensor of floats, by rows.
  std::vector<Row> rows(const std::string& name) const {
    const tensor::StoredTensor& tensor = *tensors_.find(name);
    const std::vector<float> all = tensor::read_vector(tensor);
    const auto width = static_cast<std::ptrdiff_t>(tensor.shape().back());
    std::vector<Row> rows;
    for (auto at = all.begin(); at != all.end(); at += width) rows.emplace_back(at, at + width);
    return rows;
  }

  bool has(const std::string& name) const { return tensors_.find(name) != nullptr; }

  std::vector<int> prompt() const { return ids("prompt_ids"); }
  /// A tensor of 64-bit numbers, in order.
  std::vector<int> ids(const std::string& name) const {
    const tensor::StoredTensor& tensor = *tensors_.find(name);
    std::vector<std::byte> scratch;
    const std::byte* bytes = tensor.read(0, tensor.bytes(), scratch);
    std::vector<int> numbers;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      int64_t id = 0;
      std::memcpy(&id, bytes + i * 8, 8);
      numbers.push_back(static_cast<int>(id));
    }
    return numbers;
  }

  const std::string folder;
  const std::unique_ptr<checkpoint::Checkpoint> target;
  const nlohmann::json facts;

 private:
  MappedFile file_;
  checkpoint::TensorSet tensors_;
};

/// The target's reference, fed token by token.
struct TargetRun : reference::TargetRun {
  explicit TargetRun(const checkpoint::Checkpoint& target, const reference::Disturb& disturb = {})
      : reference::TargetRun(target.config, target.weights, disturb) {}
};

inline int argmax(const Row& row) {
  return static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
}

inline double largest_error(const Row& got, const Row& want) {
  double worst = got.size() == want.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace slip::test
