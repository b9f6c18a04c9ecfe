// Errors on the wire: google.rpc.Status with an ErrorInfo.

#ifndef CPFEED_CORE_WIRE_STATUS_CODEC_H_
#define CPFEED_CORE_WIRE_STATUS_CODEC_H_

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace cpfeed {

// The domain of all our ErrorInfos.
inline constexpr char kErrorDomain[] = "cpfeed.dev";

// Code, message and, as ErrorInfo, the reason; a BadRequest where a field is
// wrong, a RetryInfo where a later try may succeed.
google::rpc::Status StatusToProto(const absl::Status& status);

// The reverse. A code that is no code becomes UNKNOWN; ErrorInfos of other
// domains are left out.
absl::Status StatusFromProto(const google::rpc::Status& proto);

}  // namespace cpfeed

#endif  // CPFEED_CORE_WIRE_STATUS_CODEC_H_
