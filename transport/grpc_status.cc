#include "transport/grpc_status.h"

#include <string>

#include "core/base/error.h"
#include "core/wire/status_codec.h"
#include "google/rpc/status.pb.h"

namespace cpfeed {
namespace {

// All details travel in one header, whose size is bounded.
constexpr size_t kMaxMessageBytes = 2048;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details = StatusToProto(status);
  if (details.message().size() > kMaxMessageBytes) {
    details.mutable_message()->resize(kMaxMessageBytes);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(details.code()),
                      details.message(), details.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status details;
  if (!status.error_details().empty() &&
      details.ParseFromString(status.error_details()) &&
      details.code() == status.error_code()) {
    return StatusFromProto(details);
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

}  // namespace cpfeed
