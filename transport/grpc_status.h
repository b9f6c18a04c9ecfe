// The one converter between absl::Status and grpc::Status.

#ifndef CPFEED_TRANSPORT_GRPC_STATUS_H_
#define CPFEED_TRANSPORT_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace cpfeed {

// Code and message, and as details a google.rpc.Status whose ErrorInfo has the
// reason.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The reverse.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace cpfeed

#endif  // CPFEED_TRANSPORT_GRPC_STATUS_H_
