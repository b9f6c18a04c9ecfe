// Makes sure that all ranks are about to do the same thing.

#ifndef CPFEED_CORE_COMM_DIGEST_AGREEMENT_H_
#define CPFEED_CORE_COMM_DIGEST_AGREEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/comm/communicator.h"

namespace cpfeed {

// Compares this rank's plan digest with those of all others. Called once a
// step, before its first collective: ranks with different plans would wait for
// each other's messages for ever, or read wrong ones.
//
// Errors:
//   FAILED_PRECONDITION  They differ (reason PLAN_MISMATCH), on every rank:
//                        "plan digest is 0x... on ranks 0, 2 and 0x... on
//                        rank 1; must be equal".
absl::Status CheckDigestAgreement(Communicator& group, uint64_t digest);

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_DIGEST_AGREEMENT_H_
