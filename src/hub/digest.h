// The two hashes that name blobs: SHA-256 of the bytes, and git's SHA-1 of "blob LENGTH\0" and the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace slip::hub {

class Digest {
 public:
  enum class Kind { kSha256, kGitBlob };

  /// `size` is how many bytes will come; git's hash begins with it.
  Digest(Kind kind, uint64_t size);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(std::span<const std::byte> bytes);
  /// Lower-case hexadecimal. Nothing may be added after it.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace slip::hub
