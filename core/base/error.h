// Errors with a reason: the part of the contract that programs decide by.
//
// A reason is an upper-case word such as NOT_DIVISIBLE. It travels inside the
// absl::Status as a payload and crosses the network as
// google.rpc.ErrorInfo.reason. Texts are for people and may change.

#ifndef CPFEED_CORE_BASE_ERROR_H_
#define CPFEED_CORE_BASE_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace cpfeed {

// The request is wrong whatever the state.
inline constexpr char kBatchMalformed[] = "BATCH_MALFORMED";
inline constexpr char kShapeMismatch[] = "SHAPE_MISMATCH";
inline constexpr char kLengthsInconsistent[] = "LENGTHS_INCONSISTENT";
inline constexpr char kNotDivisible[] = "NOT_DIVISIBLE";
inline constexpr char kBatchTooLarge[] = "BATCH_TOO_LARGE";
inline constexpr char kMaskNotSupported[] = "MASK_NOT_SUPPORTED";
inline constexpr char kBadOption[] = "BAD_OPTION";
// The request is right, the state is wrong.
inline constexpr char kOutOfOrder[] = "OUT_OF_ORDER";
inline constexpr char kSequenceConflict[] = "SEQUENCE_CONFLICT";
inline constexpr char kMemoryPressure[] = "MEMORY_PRESSURE";
inline constexpr char kFenced[] = "FENCED";
// A seek ended the stream; open again.
inline constexpr char kRewound[] = "REWOUND";
inline constexpr char kTopologyMismatch[] = "TOPOLOGY_MISMATCH";
inline constexpr char kSchemaMismatch[] = "SCHEMA_MISMATCH";
inline constexpr char kCursorMismatch[] = "CURSOR_MISMATCH";
inline constexpr char kCursorExpired[] = "CURSOR_EXPIRED";
inline constexpr char kChecksumMismatch[] = "CHECKSUM_MISMATCH";
inline constexpr char kDraining[] = "DRAINING";
inline constexpr char kSessionNotFound[] = "SESSION_NOT_FOUND";
inline constexpr char kSessionExists[] = "SESSION_EXISTS";
inline constexpr char kSessionDeleted[] = "SESSION_DELETED";
inline constexpr char kSessionExpired[] = "SESSION_EXPIRED";
inline constexpr char kSessionFailed[] = "SESSION_FAILED";
// A batch passed validation and cannot be converted.
inline constexpr char kPoisoned[] = "POISONED";
inline constexpr char kMessageTooLarge[] = "MESSAGE_TOO_LARGE";
inline constexpr char kProtocolError[] = "PROTOCOL_ERROR";
inline constexpr char kProtocolUnsupported[] = "PROTOCOL_UNSUPPORTED";
inline constexpr char kQuota[] = "QUOTA";
// Among the ranks of a group.
inline constexpr char kPeerLate[] = "PEER_LATE";
inline constexpr char kPeerLost[] = "PEER_LOST";
inline constexpr char kGroupFailed[] = "GROUP_FAILED";
inline constexpr char kPlanMismatch[] = "PLAN_MISMATCH";
inline constexpr char kNotSupported[] = "NOT_SUPPORTED";

// An error with a reason; `code` is not OK.
absl::Status MakeError(absl::StatusCode code, absl::string_view reason,
                       absl::string_view message);

// The commonest of them.
absl::Status InvalidArgument(absl::string_view reason,
                             absl::string_view message);

// INVALID_ARGUMENT, BAD_OPTION: "`field` `what`", such as
// "limits.max_batch_bytes is 0; must be 1 to 9". The field travels as
// google.rpc.BadRequest.
absl::Status InvalidField(absl::string_view field, absl::string_view what);

// The field of InvalidField, or "".
std::string FieldOf(const absl::Status& status);

// `status` for a caller that may try again after `delay`. It travels as
// google.rpc.RetryInfo.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// How long to wait before the next try, at least; zero where it does not say.
absl::Duration RetryDelayOf(const absl::Status& status);

// The reason of `status`, or "" where it has none.
std::string ReasonOf(const absl::Status& status);

// `status` with "`place`: " in front of its message; code and reason stay. OK
// stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view place);

}  // namespace cpfeed

#endif  // CPFEED_CORE_BASE_ERROR_H_
