// One problem of gated delta attention over several ranks of this process, and
// over one.

#ifndef CPFEED_CLIENT_WORKER_DELTA_RUN_H_
#define CPFEED_CLIENT_WORKER_DELTA_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/worker/case_flags.h"
#include "client/worker/delta_case.h"
#include "client/worker/number_array.h"

namespace cpfeed {

struct DeltaResult {
  // In stream order: out [T][Hv][V], final_state [sequences][Hv][K][V]; with a
  // convolution conv_out [T][columns], g and beta [T][Hv]. Rows of padding, and
  // states of empty sequences, are 0.
  std::map<std::string, NumberArray> out;
  // Of every input, if the case has a dout; of parameters the sum over ranks.
  std::map<std::string, NumberArray> grad;
  // The largest difference of all these to one device in float64.
  double max_difference = 0;
  std::vector<int64_t> bytes_received;           // Forward, by rank.
  std::vector<int64_t> backward_bytes_received;  // Likewise.
};

// Plans, shards, runs a thread for each rank, and puts the parts back together.
//
// Errors: those of PlanShards, GatedDelta or ShardedDeltaRule, and of
// RunRankThreads.
absl::StatusOr<DeltaResult> RunDelta(const DeltaCase& input,
                                     const CaseOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_DELTA_RUN_H_
