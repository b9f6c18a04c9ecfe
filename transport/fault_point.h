// Places where a test lets the process die.
//
// A program arms one of them, by a flag that works on loopback alone. Nothing
// else in the process knows of it, and kill -9 leaves nobody the time to tidy
// up: what a test sees then is what a power cut would leave.

#ifndef CPFEED_TRANSPORT_FAULT_POINT_H_
#define CPFEED_TRANSPORT_FAULT_POINT_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

// Arms a point: "NAME:N" kills the process when the point NAME is reached for
// the Nth time. Once, before threads start.
//
// Errors:
//   INVALID_ARGUMENT  BAD_OPTION: not of that form, or no such point.
absl::Status ArmFaultPoint(const std::string& name_and_count);

namespace internal_fault_point {
extern std::atomic<bool> armed;
void Reach(absl::string_view name);
}  // namespace internal_fault_point

// Called where the point is. Costs a load while none is armed. Names:
//   ingest_read, ingest_write  before the server takes, writes a message of a
//                              loader's stream
//   shard_read, shard_write    likewise, of a consumer's
//   publish                    before a batch becomes a step
//   client_read, client_write  behind a message that a client read, before one
//                              that it writes
inline void FaultPoint(absl::string_view name) {
  if (internal_fault_point::armed.load(std::memory_order_relaxed)) {
    internal_fault_point::Reach(name);
  }
}

}  // namespace cpfeed

#endif  // CPFEED_TRANSPORT_FAULT_POINT_H_
