#include "hub/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/check.h"
#include "base/error.h"

namespace slip::hub {

struct Digest::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Digest::Digest(Kind kind, uint64_t size) : context_(std::make_unique<Context>()) {
  const EVP_MD* algorithm = kind == Kind::kSha256 ? EVP_sha256() : EVP_sha1();
  if (context_->evp == nullptr || EVP_DigestInit_ex(context_->evp, algorithm, nullptr) != 1) {
    fail(ErrorKind::kRuntime, "OpenSSL cannot compute {} here", kind == Kind::kSha256 ? "SHA-256" : "SHA-1");
  }
  if (kind == Kind::kGitBlob) {
    const std::string head = fmt::format("blob {}", size);
    add(std::as_bytes(std::span(head.c_str(), head.size() + 1)));
  }
}

Digest::~Digest() = default;

void Digest::add(std::span<const std::byte> bytes) {
  SLIP_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

std::string Digest::finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned count = 0;
  SLIP_CHECK(EVP_DigestFinal_ex(context_->evp, bytes, &count) == 1);
  std::string text;
  for (unsigned i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace slip::hub
