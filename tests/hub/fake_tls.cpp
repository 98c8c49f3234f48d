#include "hub/fake_tls.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <utility>

namespace slip::test {
namespace {

void add_extension(X509* certificate, X509* issuer, int id, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* make_certificate(const char* name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key, long serial) {
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600 * 24);
  X509_set_pubkey(certificate, key);
  X509_NAME* subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name), -1,
                             -1, 0);
  X509* signer = issuer == nullptr ? certificate : issuer;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer));
  if (issuer == nullptr) {
    add_extension(certificate, signer, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(certificate, signer, NID_key_usage, "critical,keyCertSign");
  } else {
    add_extension(certificate, signer, NID_subject_alt_name, "IP:127.0.0.1");
  }
  X509_sign(certificate, issuer_key, EVP_sha256());
  return certificate;
}

}  // namespace

TlsStream::~TlsStream() {
  SSL_free(ssl_);
}

TlsStream& TlsStream::operator=(TlsStream&& other) noexcept {
  std::swap(ssl_, other.ssl_);
  return *this;
}

ssize_t TlsStream::read(char* data, size_t size) {
  return SSL_read(ssl_, data, static_cast<int>(size));
}

ssize_t TlsStream::write(const char* data, size_t size) {
  return SSL_write(ssl_, data, static_cast<int>(size));
}

TlsServer::TlsServer() : context_(SSL_CTX_new(TLS_server_method())) {
  EVP_PKEY* authority_key = EVP_EC_gen("P-256");
  EVP_PKEY* key = EVP_EC_gen("P-256");
  // A name of its own, as real authorities have: with another's name and another key, the signature itself
  // would be what fails.
  const std::string name = "fake authority " + std::to_string(reinterpret_cast<uintptr_t>(this));
  X509* authority = make_certificate(name.c_str(), authority_key, nullptr, authority_key, 1);
  X509* certificate = make_certificate("fake hub", key, authority, authority_key, 2);
  SSL_CTX_use_certificate(context_, certificate);
  SSL_CTX_use_PrivateKey(context_, key);
  BIO* memory = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(memory, authority);
  char* text = nullptr;
  const long length = BIO_get_mem_data(memory, &text);
  authority_.assign(text, static_cast<size_t>(length));
  BIO_free(memory);
  X509_free(certificate);
  X509_free(authority);
  EVP_PKEY_free(key);
  EVP_PKEY_free(authority_key);
}

TlsServer::~TlsServer() {
  SSL_CTX_free(context_);
}

TlsStream TlsServer::accept(int fd) {
  SSL* ssl = SSL_new(context_);
  SSL_set_fd(ssl, fd);
  TlsStream stream(ssl);
  if (SSL_accept(ssl) != 1) return {};
  return stream;
}

}  // namespace slip::test
