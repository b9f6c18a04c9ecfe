// Finds out who calls, by certificate or token.

#ifndef CPFEED_SERVER_AUTH_AUTHENTICATOR_H_
#define CPFEED_SERVER_AUTH_AUTHENTICATOR_H_

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/server_context.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/auth/auth_file.h"
#include "server/auth/principal.h"

namespace cpfeed {

// Thread-safe.
class Authenticator {
 public:
  // Reads the auth file now, and again when it changes: it is looked at every
  // `refresh`. A changed file that is wrong is reported and not used.
  //
  // Errors: of the file, now.
  static absl::StatusOr<std::unique_ptr<Authenticator>> Open(
      const std::string& path, absl::Duration refresh);

  // Who has one of the certificate's names, or the token; the token decides
  // where both are there. Takes as long for a token that is nearly right as for
  // any other.
  //
  // Errors:
  //   UNAUTHENTICATED  Nobody.
  absl::StatusOr<Caller> Identify(const std::vector<std::string>& sans,
                                  absl::string_view authorization)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether a call of "/package.Service/Method" may go on.
  //
  // Errors:
  //   UNAUTHENTICATED    Nobody calls.
  //   PERMISSION_DENIED  Somebody whose roles do not include the method.
  absl::Status Check(absl::string_view path,
                     const std::vector<std::string>& sans,
                     absl::string_view authorization) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  Authenticator(std::string path, absl::Duration refresh);
  absl::Status Load() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const absl::Duration refresh_;
  absl::Mutex mu_;
  absl::Time looked_at_ ABSL_GUARDED_BY(mu_);
  std::string stamp_ ABSL_GUARDED_BY(mu_);  // Of the file's version.
  AuthFile file_ ABSL_GUARDED_BY(mu_);
};

// Checks every call on a port, of whatever method, before anything of ours sees
// it. `refused` is told of those that may not go on. `authenticator` outlives
// the server.
std::shared_ptr<grpc::AuthMetadataProcessor> MakeCallCheck(
    Authenticator& authenticator,
    std::function<void(const absl::Status&)> refused);

// Who calls a handler. An empty caller where `authenticator` is null. The call
// has passed the check, so only a change of the file in between makes it fail.
absl::StatusOr<Caller> CallerOf(Authenticator* authenticator,
                                const grpc::ServerContext& context);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_AUTH_AUTHENTICATOR_H_
