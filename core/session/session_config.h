// What a session is told when it is made.

#ifndef CPFEED_CORE_SESSION_SESSION_CONFIG_H_
#define CPFEED_CORE_SESSION_SESSION_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace cpfeed {

// A batch costs its payload, and then its shards beside it: of the same tensors
// plus generated positions (8 bytes a token) and mask (1 byte). The smallest
// token has 5 bytes (int32 id, int8 label), so the sum is below four payloads,
// unless auto_pad inserts many tokens; then the real cost is charged before
// anything is converted.
inline constexpr int64_t kCostPerPayloadByte = 4;

// When a step's bytes are freed.
enum class Retention {
  kReplay,  // When every consumer acknowledged it.
  kRetain,  // When a committed cursor passed it, too.
};

struct SessionConfig {
  int cp_size = 1;
  int consumers_per_cp_rank = 1;
  std::vector<std::string> producers = {"default"};  // In turn order.
  Retention retention = Retention::kReplay;
  int64_t max_step_skew = 8;
  int64_t max_uncommitted_steps = 64;
  int64_t memory_budget_bytes = int64_t{1} << 30;
  int64_t max_batch_bytes = int64_t{64} << 20;

  int num_consumers() const { return cp_size * consumers_per_cp_rank; }
};

// Errors:
//   INVALID_ARGUMENT    A field is out of range; the message names it.
//   RESOURCE_EXHAUSTED  The budget cannot hold one largest batch of every
//                       producer (and, with kRetain, the uncommitted steps).
absl::Status ValidateConfig(const SessionConfig& config);

}  // namespace cpfeed

#endif  // CPFEED_CORE_SESSION_SESSION_CONFIG_H_
