#include "server/auth/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files, bool require_certificate) {
  if (files.certificate.empty() && files.key.empty() &&
      files.client_ca.empty()) {
    return grpc::InsecureServerCredentials();
  }
  if (files.certificate.empty() || files.key.empty()) {
    return InvalidArgument(kBadOption,
                           "TLS needs both a certificate and its key");
  }
  for (const std::string& path :
       {files.certificate, files.key, files.client_ca}) {
    if (!path.empty() && access(path.c_str(), R_OK) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot read ", path));
    }
  }
  const auto seconds = static_cast<unsigned int>(
      std::max<int64_t>(absl::ToInt64Seconds(files.refresh), 1));
  auto provider =
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.certificate, files.client_ca, seconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(
        require_certificate
            ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
            : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace cpfeed
