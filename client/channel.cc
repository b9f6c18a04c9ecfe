#include "client/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/session_client.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "transport/channel_settings.h"

namespace cpfeed {
namespace {

constexpr unsigned int kRefreshSeconds = 10;
constexpr size_t kMaxTokenBytes = 4096;

// Adds the token to every call. Reads it each time: a new one is in use at
// once.
class TokenFromFile final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenFromFile(std::string path) : path_(std::move(path)) {}

  grpc::Status GetMetadata(
      grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
      std::multimap<grpc::string, grpc::string>* metadata) override {
    std::ifstream file(path_, std::ios::binary);
    std::string token(kMaxTokenBytes + 1, '\0');
    file.read(token.data(), static_cast<std::streamsize>(token.size()));
    token.resize(static_cast<size_t>(file.gcount()));
    absl::StripAsciiWhitespace(&token);
    if (token.empty() || token.size() > kMaxTokenBytes) {
      return {grpc::StatusCode::UNAUTHENTICATED,
              absl::StrCat("no token can be read from ", path_)};
    }
    metadata->emplace("authorization", absl::StrCat("Bearer ", token));
    return grpc::Status::OK;
  }

 private:
  const std::string path_;
};

absl::Status CheckFiles(const ChannelSecurity& security) {
  if (security.tls_cert.empty() != security.tls_key.empty()) {
    return InvalidArgument(
        kBadOption, "tls_cert and tls_key must be given both, or neither");
  }
  if (!security.token_file.empty() && !security.uses_tls()) {
    return InvalidArgument(kBadOption,
                           "a token needs TLS: give tls_ca or tls_cert");
  }
  for (const std::string& path : {security.tls_ca, security.tls_cert,
                                  security.tls_key, security.token_file}) {
    if (!path.empty() && access(path.c_str(), R_OK) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot read ", path));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const std::string& server, const ChannelSecurity& security) {
  CF_RETURN_IF_ERROR(CheckFiles(security));
  if (!security.uses_tls()) return MakeChannel(server);
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          security.tls_key, security.tls_cert, security.tls_ca,
          kRefreshSeconds));
  if (!security.tls_ca.empty()) options.watch_root_certs();
  if (!security.tls_cert.empty()) options.watch_identity_key_cert_pairs();
  auto credentials = grpc::experimental::TlsCredentials(options);
  if (!security.token_file.empty()) {
    credentials = grpc::CompositeChannelCredentials(
        credentials, grpc::MetadataCredentialsFromPlugin(
                         std::make_unique<TokenFromFile>(security.token_file)));
  }
  return grpc::CreateCustomChannel(server, credentials, MakeClientArguments());
}

}  // namespace cpfeed
