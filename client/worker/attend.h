// One attention problem over several ranks of this process, and over one.

#ifndef CPFEED_CLIENT_WORKER_ATTEND_H_
#define CPFEED_CLIENT_WORKER_ATTEND_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/worker/attend_result.h"
#include "client/worker/attention_case.h"
#include "core/attention/kv_exchange.h"
#include "core/plan/layout_spec.h"
#include "core/tensor/dtype.h"

namespace cpfeed {

// How the ranks, which are threads, reach each other.
enum class AttendTransport { kLoopback, kGloo };

struct AttendOptions {
  int num_ranks = 1;
  LayoutSpec layout;
  DType dtype = DType::kFloat32;  // Or float64 or bfloat16.
  AttendTransport transport = AttendTransport::kLoopback;
  absl::Duration timeout = absl::Minutes(1);  // Of each wait for a rank.
};

// Plans, shards, runs a thread for each rank, and puts the parts back together.
//
// Errors: those of PlanShards, ContextParallelAttention and its backward pass,
// and of joining a Gloo group on 127.0.0.1.
absl::StatusOr<AttendResult> Attend(const AttentionCase& input,
                                    const KvExchange& exchange,
                                    const AttendOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_ATTEND_H_
