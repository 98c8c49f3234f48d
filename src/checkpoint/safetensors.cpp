#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "checkpoint/json_text.h"

namespace slip::checkpoint {

namespace {

// The limit of the format's own reader. A real header takes about 120 bytes per tensor.
constexpr uint64_t kLongestHeader = 100'000'000;
constexpr size_t kLengthBytes = 8;
constexpr size_t kMostDimensions = 8;

/// Reads the header as a stream of events, so that no document is built, a name given twice is noticed, and
/// nesting ends where the format ends it.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  std::vector<HeaderEntry> entries;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number that is not whole");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (value > static_cast<uint64_t>(INT64_MAX))
        fail_tensor("has an extent of {}, which is too large", value);
      if (shape().size() == kMostDimensions) fail_tensor("has more than {} dimensions", kMostDimensions);
      shape().push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::kOffsets) {
      if (offsets_.size() == 2) fail_tensor("has more than two data_offsets");
      offsets_.push_back(value);
    } else {
      return unexpected("a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kEntry || field_ != "dtype") return unexpected("a string");
    const auto dtype = tensor::parse_dtype(value);
    if (!dtype) {
      fail_tensor(
          "has the dtype {}, which slipstream cannot read; use a checkpoint in BF16, F16, F32 or MLX affine",
          in_quotes(value));
    }
    entries.back().dtype = *dtype;
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && field_ == "__metadata__") {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kEntry;
      entries.emplace_back().name = field_;
      has_dtype_ = has_shape_ = has_offsets_ = false;
      offsets_.clear();
    } else {
      return unexpected("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    field_ = name;
    if (place_ != Place::kEntry) return true;
    bool* seen = name == "dtype"          ? &has_dtype_
                 : name == "shape"        ? &has_shape_
                 : name == "data_offsets" ? &has_offsets_
                                          : nullptr;
    if (seen == nullptr) fail_tensor("has an unknown field {}", in_quotes(name));
    if (*seen) fail_tensor("has the field {} twice", in_quotes(name));
    *seen = true;
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) {
      if (!has_dtype_) fail_tensor("has no dtype");
      if (!has_shape_) fail_tensor("has no shape");
      if (offsets_.size() != 2) fail_tensor("needs two data_offsets, found {}", offsets_.size());
      entries.back().begin = offsets_[0];
      entries.back().end = offsets_[1];
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kEntry && field_ == "shape") {
      place_ = Place::kShape;
    } else if (place_ == Place::kEntry && field_ == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      return unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::kEntry;
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& fault) override {
    fail_file("{}: the header is not valid JSON: {}", file_, json_fault(fault.what()));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kEntry, kShape, kOffsets, kEnd };

  std::vector<int64_t>& shape() { return entries.back().shape; }

  template <typename... Args>
  [[noreturn]] void fail_tensor(fmt::format_string<Args...> format, Args&&... args) const {
    fail_file("{}: tensor {} {}", file_, in_quotes(entries.back().name),
              fmt::format(format, std::forward<Args>(args)...));
  }

  bool unexpected(std::string_view found) const {
    switch (place_) {
      case Place::kStart:
      case Place::kEnd: fail_file("{}: the header must be a JSON object, found {}", file_, found);
      case Place::kTop:
        fail_file("{}: the entry {} must be an object, found {}", file_, in_quotes(field_), found);
      case Place::kMetadata: fail_file("{}: __metadata__ may hold only strings, found {}", file_, found);
      default: fail_tensor("has {} in its {}", found, in_quotes(field_));
    }
  }

  const std::string& file_;
  Place place_ = Place::kStart;
  std::string field_;  // the key that was read last
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::vector<uint64_t> offsets_;
};

/// Bytes of a tensor of this shape, or nothing when they cannot be counted in 63 bits.
std::optional<uint64_t> shape_bytes(const HeaderEntry& entry) {
  int64_t bytes = 1;
  for (const int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  if (__builtin_mul_overflow(bytes, static_cast<int64_t>(tensor::size_of(entry.dtype)), &bytes))
    return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

void check_entry(const HeaderEntry& entry, uint64_t data_size, const std::string& file) {
  const std::string name = in_quotes(entry.name);
  if (entry.begin > entry.end) {
    fail_file("{}: tensor {} has its data_offsets reversed ({} comes before {})", file, name, entry.begin,
              entry.end);
  }
  if (entry.end > data_size) {
    fail_file(
        "{}: tensor {} ends at byte {} of the data, but the file has only {} of them; download it again",
        file, name, entry.end, data_size);
  }
  const auto bytes = shape_bytes(entry);
  if (!bytes) {
    fail_file("{}: tensor {} has the shape {}, whose size overflows", file, name,
              tensor::shape_text(entry.shape));
  }
  if (*bytes != entry.end - entry.begin) {
    fail_file("{}: tensor {} of {} {} needs {} bytes, but its data_offsets hold {}", file, name,
              tensor::name_of(entry.dtype), tensor::shape_text(entry.shape), *bytes, entry.end - entry.begin);
  }
}

/// After this, entries are in the order of their bytes and cover the data exactly.
void check_cover(std::vector<HeaderEntry>& entries, uint64_t data_size, const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t reached = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const HeaderEntry& entry = entries[i];
    if (entry.begin < reached) {
      fail_file("{}: the bytes of tensor {} overlap those of {}", file, in_quotes(entry.name),
                in_quotes(entries[i - 1].name));
    }
    if (entry.begin > reached) {
      fail_file("{}: {} bytes before tensor {} belong to no tensor; the file is damaged or not safetensors",
                file, entry.begin - reached, in_quotes(entry.name));
    }
    reached = entry.end;
  }
  if (reached != data_size) {
    fail_file("{}: {} bytes at the end belong to no tensor; the file is damaged or not safetensors", file,
              data_size - reached);
  }
}

void check_names(const std::vector<HeaderEntry>& entries, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const HeaderEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail_file("{}: tensor {} is listed twice", file, in_quotes(*twice));
}

class MappedTensor : public tensor::StoredTensor {
 public:
  MappedTensor(HeaderEntry entry, const MappedFile& file)
      : StoredTensor(std::move(entry.name), entry.dtype, std::move(entry.shape)),
        file_(file),
        begin_(entry.begin) {}

  const std::byte* read(size_t offset, size_t, std::vector<std::byte>&) const override {
    return file_.bytes().data() + begin_ + offset;
  }
  void drop(size_t offset, size_t count) const override { file_.drop(begin_ + offset, count); }
  const std::string& path() const { return file_.path(); }

 private:
  const MappedFile& file_;
  const size_t begin_;
};

}  // namespace

std::vector<HeaderEntry> parse_header(std::span<const std::byte> bytes, uint64_t file_size,
                                      const std::string& file) {
  const uint64_t available = std::min<uint64_t>(bytes.size(), file_size);
  if (available < kLengthBytes) {
    fail_file("{}: is {} bytes long, too short for a safetensors file; download it again", file, file_size);
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (length > available - kLengthBytes) {
    fail_file("{}: says its header is {} bytes long, but only {} follow; it is cut short or not safetensors",
              file, length, available - kLengthBytes);
  }
  if (length > kLongestHeader) {
    fail_file("{}: says its header is {} bytes long; more than {} is not believable", file, length,
              kLongestHeader);
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data() + kLengthBytes);
  HeaderReader reader(file);
  nlohmann::json::sax_parse(text, text + length, &reader);

  const uint64_t data_size = file_size - kLengthBytes - length;
  for (const HeaderEntry& entry : reader.entries) check_entry(entry, data_size, file);
  check_names(reader.entries, file);
  check_cover(reader.entries, data_size, file);
  for (HeaderEntry& entry : reader.entries) {
    entry.begin += kLengthBytes + length;
    entry.end += kLengthBytes + length;
  }
  return std::move(reader.entries);
}

std::vector<std::string> add_safetensors(const MappedFile& file, TensorSet& tensors) {
  std::vector<std::string> names;
  for (HeaderEntry& entry : parse_header(file.bytes(), file.bytes().size(), file.path())) {
    names.push_back(entry.name);
    if (!tensors.add(std::make_unique<MappedTensor>(std::move(entry), file))) {
      fail_file("{}: tensor {} is in another file of this checkpoint too", file.path(),
                in_quotes(names.back()));
    }
  }
  return names;
}

const std::string* file_of(const tensor::StoredTensor& tensor) {
  const auto* mapped = dynamic_cast<const MappedTensor*>(&tensor);
  return mapped == nullptr ? nullptr : &mapped->path();
}

}  // namespace slip::checkpoint
