// The tensors that a session lists, and those that a batch brings.

#ifndef CPFEED_SERVER_TENSOR_FIELDS_H_
#define CPFEED_SERVER_TENSOR_FIELDS_H_

#include "absl/status/status.h"
#include "cpfeed/v1/ingest.pb.h"
#include "cpfeed/v1/session.pb.h"

namespace cpfeed {

// Tensors that the session does not list may be of any kind.
//
// Errors:
//   INVALID_ARGUMENT  SCHEMA_MISMATCH: a tensor has another dtype than the
//                     session says, or is PLACEMENT_LOCAL, which ranks cut out
//                     of their own.
absl::Status CheckFieldsOfBatch(const v1::Session& session,
                                const v1::BatchHeader& batch);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_TENSOR_FIELDS_H_
