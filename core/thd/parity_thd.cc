#include "core/thd/parity_thd.h"

#include "core/base/status_macros.h"
#include "core/thd/parity_chunks.h"
#include "core/thd/parity_rules.h"

namespace cpfeed {

absl::StatusOr<ParityDict> ProcessInputForThd(const ParityDict& batch,
                                              const ParityOptions& options) {
  ParityOptions whole = options;
  whole.num_chunks = 1;
  return SplitBatchIntoThdChunks(batch, whole);
}

absl::StatusOr<ParityDict> SplitBatchIntoThdChunks(
    const ParityDict& batch, const ParityOptions& options) {
  CF_ASSIGN_OR_RETURN(ParityDict result, RunSplitIntoThdChunks(batch, options));
  CF_RETURN_IF_ERROR(CheckParityRules(batch, options));
  return result;
}

}  // namespace cpfeed
