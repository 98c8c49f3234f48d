#include "conformance/golden_support.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "session/device.h"

namespace slip::conformance {

Expected::Expected(const std::string& folder)
    : path_(folder + "/expected.json"), file_(folder + "/expected.safetensors") {
  facts_ = nlohmann::json::parse(read_text_file(path_), nullptr, false);
  if (!facts_.is_object()) fail_file("{}: is not a JSON object", path_);
  checkpoint::add_safetensors(file_, tensors_);
}

const nlohmann::json& Expected::fact(const std::string& name) const {
  const auto at = facts_.find(name);
  if (at == facts_.end()) fail_file("{}: has no {}", path_, name);
  return *at;
}

std::vector<int> Expected::token_list(const nlohmann::json& list, const std::string& name) const {
  if (!list.is_array()) fail_file("{}: {} is not a list", path_, name);
  std::vector<int> tokens;
  for (const auto& item : list) {
    if (!item.is_number_integer()) fail_file("{}: {} has an entry that is no token id", path_, name);
    tokens.push_back(item.get<int>());
  }
  return tokens;
}

std::vector<float> Expected::floats(const std::string& name) const {
  const auto& tensor = find(name);
  if (!tensor::is_float_storage(tensor.dtype()))
    fail_file("{}: {} is not a float tensor", file_.path(), name);
  return tensor::read_vector(tensor);
}

std::vector<uint8_t> Expected::bytes(const std::string& name) const {
  const auto& tensor = find(name);
  if (tensor.dtype() != tensor::DType::kU8) fail_file("{}: {} is not a U8 tensor", file_.path(), name);
  std::vector<std::byte> scratch;
  const auto* data = reinterpret_cast<const uint8_t*>(tensor.read(0, tensor.bytes(), scratch));
  return {data, data + tensor.bytes()};
}

std::vector<int> Expected::ids(const std::string& name) const {
  const auto& tensor = find(name);
  if (tensor.dtype() != tensor::DType::kI64) fail_file("{}: {} is not an I64 tensor", file_.path(), name);
  std::vector<std::byte> scratch;
  const std::byte* bytes = tensor.read(0, tensor.bytes(), scratch);
  std::vector<int> list(static_cast<size_t>(tensor.elements()));
  for (size_t i = 0; i < list.size(); ++i) {
    int64_t value;
    std::memcpy(&value, bytes + i * sizeof(value), sizeof(value));
    list[i] = static_cast<int>(value);
  }
  return list;
}

const tensor::StoredTensor& Expected::find(const std::string& name) const {
  const auto* tensor = tensors_.find(name);
  if (tensor == nullptr) fail_file("{}: has no tensor {}", file_.path(), name);
  return *tensor;
}

double largest_error(std::span<const float> got, std::span<const float> want) {
  if (got.size() != want.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - want[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

Check judge(std::string name, double worst, double bound, const char* measure, std::string note) {
  const bool good = worst <= bound;  // false for NaN
  return {std::move(name), worst, bound, measure, good ? Check::Result::kPass : Check::Result::kFail,
          std::move(note)};
}

int argmax(std::span<const float> row) {
  return static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
}

Check compare_drafts(std::string name, std::span<const float> got, std::span<const float> want,
                     const VerifyOptions& options) {
  // Draft logits are not soft-capped, so they are a few times larger than the target's, and their errors too.
  constexpr double kCpuBound = 1e-2, kGpuBound = 1e-2;
  if (options.on_cpu()) return judge(std::move(name), largest_error(got, want), kCpuBound, kLargest);
  return judge(std::move(name), relative_error(got, want), kGpuBound, kRelative);
}

double device_noise(const model::Config& config, const VerifyOptions& options, int bits, size_t positions) {
  return reference::float_noise(config, static_cast<int>(positions)) +
         (options.on_cpu() ? 0 : std::ldexp(1.0, -bits - 1));
}

GoldenModel::GoldenModel(const checkpoint::Checkpoint& checkpoint, session::Activations activations,
                         kv::Storage kv, const VerifyOptions& options) {
  // A GPU has no floats, which only matters where weights are quantised.
  session::BackendOptions backend = options.backend;
  const bool has_it = options.on_cpu() || activations != session::Activations::kFloat;
  backend.activations = has_it ? activations : session::Activations::kAuto;
  backend.kv = kv;
  backend_ = session::load_backend(checkpoint, backend).backend;
  vocab_ = static_cast<size_t>(checkpoint.config.vocab);
  hidden_ = static_cast<size_t>(checkpoint.config.hidden);
  restart();
}

void GoldenModel::set_taps(std::span<const int> layers) {
  backend_->set_taps(layers);
  tapped_ = layers.size() * hidden_;
}

void GoldenModel::restart() {
  cache_ = backend_->new_cache();
  logits.clear();
  hidden.clear();
  taps.clear();
}

void GoldenModel::feed(std::span<const int> tokens, size_t width) {
  std::vector<Token> plain;
  for (const int token : tokens) plain.push_back({.id = token});
  feed(plain, width);
}

size_t GoldenModel::rows_from(std::span<const Token> tokens, size_t at, size_t width) {
  const size_t count = std::min(width, tokens.size() - at);
  const auto block = static_cast<size_t>(tokens[at + count - 1].block_end);
  if (block <= at + count) return count;
  // The last row's block goes on: it comes whole, or not at all.
  size_t begin = at + count - 1;
  while (begin > at && static_cast<size_t>(tokens[begin - 1].block_end) == block) --begin;
  return begin > at ? begin - at : block - at;
}

void GoldenModel::feed(std::span<const Token> tokens, size_t width) {
  const int start = cache_->length();
  cache_->reserve(start + static_cast<int64_t>(tokens.size()));
  for (size_t at = 0, count = 0; at < tokens.size(); at += count) {
    count = rows_from(tokens, at, width);
    std::vector<backend::Row> rows(count);
    for (size_t i = 0; i < count; ++i) {
      const Token& token = tokens[at + i];
      rows[i].token = token.id;
      rows[i].position = cache_->length() + static_cast<int>(i);
      rows[i].soft = token.soft;
      rows[i].soft_row = token.soft_row;
      if (token.block_end > 0) rows[i].span_end = start + token.block_end;
    }
    kv::Cache* sequences[] = {cache_.get()};
    cache_->stage(static_cast<int>(count));
    const backend::Output out = backend_->run({rows, sequences});
    cache_->commit(static_cast<int>(count));
    logits.insert(logits.end(), out.logits, out.logits + count * vocab_);
    hidden.insert(hidden.end(), out.hidden, out.hidden + count * hidden_);
    if (out.taps != nullptr) taps.insert(taps.end(), out.taps, out.taps + count * tapped_);
  }
}

std::vector<int> prompt_of(const Expected& expected, const checkpoint::Checkpoint& checkpoint) {
  std::vector<int> prompt = expected.ids("prompt_ids");
  for (const int id : prompt) {
    if (id < 0 || id >= checkpoint.config.vocab) {
      fail_file("expected.safetensors: prompt_ids has the id {}, outside the vocabulary of {}", id,
                checkpoint.path);
    }
  }
  return prompt;
}

}  // namespace slip::conformance
