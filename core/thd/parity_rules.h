// What every mode refuses, whatever upstream does with it.

#ifndef CPFEED_CORE_THD_PARITY_RULES_H_
#define CPFEED_CORE_THD_PARITY_RULES_H_

#include "absl/status/status.h"
#include "core/thd/parity_dict.h"
#include "core/thd/parity_options.h"

namespace cpfeed {

// Checks a batch of a parity mode by the rules of the native mode: token axes,
// num_chunks, and both length arrays [B, P], of which neither may be missing.
// Sentinels may stand anywhere in a row, as upstream filters them out.
//
// Errors:
//   INVALID_ARGUMENT  As ValidateBatch.
absl::Status CheckParityRules(const ParityDict& batch,
                              const ParityOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_PARITY_RULES_H_
