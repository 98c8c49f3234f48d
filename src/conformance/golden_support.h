// What the checks of a golden case share: the expected results, the measures of error, and a model of the
// case on a device.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"
#include "conformance/golden_case.h"
#include "reference/sensitivity.h"

namespace slip::conformance {

inline constexpr const char* kLargest = "max |error|";
inline constexpr const char* kRelative = "relative L2";
inline constexpr const char* kBits = "differing bits";
inline constexpr const char* kWrongTokens = "wrong tokens";

/// expected.json and expected.safetensors of a model case.
class Expected {
 public:
  explicit Expected(const std::string& folder);

  bool has(const std::string& name) const { return facts_.contains(name) || tensors_.find(name) != nullptr; }
  const nlohmann::json& fact(const std::string& name) const;
  std::vector<int> tokens(const std::string& name) const { return token_list(fact(name), name); }
  /// A JSON list of ids; `name` is for the message when it is none.
  std::vector<int> token_list(const nlohmann::json& list, const std::string& name) const;
  std::vector<float> floats(const std::string& name) const;
  std::vector<uint8_t> bytes(const std::string& name) const;
  std::vector<int> ids(const std::string& name) const;

 private:
  const tensor::StoredTensor& find(const std::string& name) const;

  std::string path_;
  MappedFile file_;
  nlohmann::json facts_;
  checkpoint::TensorSet tensors_;
};

/// Infinity where the sizes differ or something is NaN.
double largest_error(std::span<const float> got, std::span<const float> want);
using reference::relative_error;
Check judge(std::string name, double worst, double bound, const char* measure, std::string note = "");
int argmax(std::span<const float> row);

/// What drafters computed against what was expected. The CPU computes in floats and is judged by its largest
/// error; the tensor cores of a GPU see activations of 16 or 11 bits, and its results are judged as a whole.
Check compare_drafts(std::string name, std::span<const float> got, std::span<const float> want,
                     const VerifyOptions& options);

/// A centroid head scores some tokens; transformers gives the others the least score minus one.
void fill_unscored(std::span<float> row);

/// What a device rounds by, relative to the size of a result (reference/sensitivity.h): the CPU as floats do,
/// a GPU by half the last of 16 or 11 bits of activations (2^-17, 2^-12) besides. `positions`: of angles that
/// whoever computed the expected results made in floats.
double device_noise(const model::Config& config, const VerifyOptions& options, int bits, size_t positions);

/// A model of the case on the device of the options, fed with token ids.
class GoldenModel {
 public:
  GoldenModel(const checkpoint::Checkpoint& checkpoint, session::Activations activations, kv::Storage kv,
              const VerifyOptions& options);

  /// From the next feed() on, `taps` collects what these layers put out.
  void set_taps(std::span<const int> layers);
  void restart();
  /// Appends tokens in steps of at most `width` rows and collects their logits and hidden states.
  void feed(std::span<const int> tokens, size_t width);
  /// The same with rows of pictures among them. Rows that see each other in both directions stay together.
  struct Token {
    int id = 0;
    const backend::SoftRows* soft = nullptr;
    int soft_row = 0;
    int block_end = 0;  // index into the tokens; 0 = causal
  };
  void feed(std::span<const Token> tokens, size_t width);

  std::span<const float> last_logits() const { return std::span(logits).last(vocab_); }
  size_t max_rows() const { return static_cast<size_t>(backend_->max_rows()); }
  backend::Backend& backend() { return *backend_; }
  kv::Cache& cache() { return *cache_; }

  std::vector<float> logits;  // [tokens fed, vocab]
  std::vector<float> hidden;  // [tokens fed, h]
  std::vector<float> taps;    // [tokens fed, taps * h]

 private:
  static size_t rows_from(std::span<const Token> tokens, size_t at, size_t width);

  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<kv::Cache> cache_;
  size_t vocab_ = 0, hidden_ = 0, tapped_ = 0;
};

/// The prompt of the case, every id inside the model's vocabulary.
std::vector<int> prompt_of(const Expected& expected, const checkpoint::Checkpoint& checkpoint);

/// Pictures and videos of a case: pixels, soft rows, and what the model says behind them.
void check_pictures(const std::string& folder, const Expected& expected, const VerifyOptions& options,
                    std::vector<Check>& checks);

/// The drafters of a case, assistant/ and dflash/, beside the target in target/.
void check_assistant(const std::string& folder, const Expected& expected, const VerifyOptions& options,
                     std::vector<Check>& checks);
void check_dflash(const std::string& folder, const Expected& expected, const VerifyOptions& options,
                  std::vector<Check>& checks);

}  // namespace slip::conformance
