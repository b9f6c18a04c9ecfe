// One attention problem over several ranks of this process, and over one.

#ifndef CPFEED_CLIENT_WORKER_ATTEND_H_
#define CPFEED_CLIENT_WORKER_ATTEND_H_

#include "absl/status/statusor.h"
#include "client/worker/attend_result.h"
#include "client/worker/attention_case.h"
#include "client/worker/case_flags.h"
#include "core/attention/kv_exchange.h"

namespace cpfeed {

// Plans, shards, runs a thread for each rank, and puts the parts back together.
//
// Errors: those of PlanShards, ContextParallelAttention and its backward pass,
// and of RunRankThreads.
absl::StatusOr<AttendResult> Attend(const AttentionCase& input,
                                    const KvExchange& exchange,
                                    const CaseOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_ATTEND_H_
