// Makes sure that all ranks are about to do the same thing.
//
// Called before the first collective of a step: ranks that are at different
// steps, or hold shards of different plans, would wait for each other's
// messages for ever, or take wrong ones for right.

#ifndef CPFEED_CORE_COMM_AGREEMENT_H_
#define CPFEED_CORE_COMM_AGREEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/comm/communicator.h"

namespace cpfeed {

// Compares the ranks' plan digests.
//
// Errors, on every rank:
//   FAILED_PRECONDITION  They differ (reason PLAN_MISMATCH): "plan digest is
//                        0x... on ranks 0, 2 and 0x... on rank 1; must be
//                        equal".
absl::Status CheckDigestAgreement(Communicator& group, uint64_t digest);

// Compares the steps that the ranks are at; -1 is the end of the data.
//
// Errors, on every rank:
//   FAILED_PRECONDITION  They differ (reason OUT_OF_ORDER): "step is 4 on ranks
//                        0, 1 and 5 on rank 2; must be equal".
absl::Status CheckStepAgreement(Communicator& group, int64_t step);

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_AGREEMENT_H_
