// SoftRows: rows that stand where a token's embedding would, as an encoder made them from an image, a sound or a
// video. A handle: the rows may lie on the device that made them, and only its backend knows how to read them.
//
// A row is a pure function of what was encoded, and never changes. It enters the model as it is, unscaled.
//
// A prompt may be queued before its rows are there: made() tells when they are, and where.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace slip::backend {

class SoftRows {
 public:
  virtual ~SoftRows() = default;
  virtual int rows() const = 0;
  /// Of the memory they occupy, for whoever keeps them.
  virtual size_t bytes() const = 0;
  /// [hidden] floats of a row in the host's memory; null where the rows lie on a device.
  virtual const float* host_row(int row) const = 0;
  /// The rows as a backend takes them; null while an encoder still works on them. Throws what went wrong there.
  virtual const SoftRows* made() const { return this; }
};

using SoftRowsHandle = std::shared_ptr<const SoftRows>;

/// Rows in the host's memory, which every backend takes.
class HostSoftRows final : public SoftRows {
 public:
  /// `values`: [rows, hidden].
  HostSoftRows(std::vector<float> values, int hidden)
      : values_(std::move(values)), hidden_(static_cast<size_t>(hidden)) {}
  int rows() const override { return static_cast<int>(values_.size() / hidden_); }
  size_t bytes() const override { return values_.size() * sizeof(float); }
  const float* host_row(int row) const override {
    return values_.data() + static_cast<size_t>(row) * hidden_;
  }

 private:
  std::vector<float> values_;
  size_t hidden_;
};

}  // namespace slip::backend
