// One stream of upstream's conversion, without our own rules.

#ifndef CPFEED_CORE_THD_PARITY_PROCESS_H_
#define CPFEED_CORE_THD_PARITY_PROCESS_H_

#include "absl/status/statusor.h"
#include "core/thd/parity_dict.h"
#include "core/thd/parity_options.h"

namespace cpfeed {

// What upstream's process_input_for_thd makes of `batch`, however senseless its
// lengths are; see ProcessInputForThd, which refuses those.
//
// Errors:
//   INVALID_ARGUMENT  Upstream raises: the reason is the exception's type.
absl::StatusOr<ParityDict> RunProcessInput(const ParityDict& batch,
                                           const ParityOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_PARITY_PROCESS_H_
