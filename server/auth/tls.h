// TLS of the data listener.

#ifndef CPFEED_SERVER_AUTH_TLS_H_
#define CPFEED_SERVER_AUTH_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace cpfeed {

// PEM files. All empty: no TLS.
struct TlsFiles {
  std::string certificate;  // Chain, the server's own first.
  std::string key;
  std::string client_ca;  // Who signs clients' certificates; empty asks none.
  // How often they are looked at: new ones serve new connections.
  absl::Duration refresh = absl::Seconds(10);

  bool enabled() const { return !certificate.empty(); }
};

// Credentials of a listener. Where `client_ca` is given, certificates of
// clients are verified; `require_certificate` refuses clients without.
//
// Errors:
//   INVALID_ARGUMENT  One of certificate and key is missing, or client_ca is
//                     there without them.
//   UNAVAILABLE       A file cannot be read; the message names it.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsFiles& files, bool require_certificate);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_AUTH_TLS_H_
