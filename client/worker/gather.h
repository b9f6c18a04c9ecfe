// Brings what all ranks have to rank 0.

#ifndef CPFEED_CLIENT_WORKER_GATHER_H_
#define CPFEED_CLIENT_WORKER_GATHER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/comm/communicator.h"

namespace cpfeed {

// The values of each rank, at rank 0; nothing at the others. `counts` [size]
// are the ranks' numbers of values and known to all. All ranks call it.
//
// Errors: those of Communicator::Exchange.
template <class T>
absl::StatusOr<std::vector<std::vector<T>>> GatherAtRankZero(
    Communicator& group, absl::Span<const T> own,
    absl::Span<const int64_t> counts);

extern template absl::StatusOr<std::vector<std::vector<float>>>
GatherAtRankZero<float>(Communicator&, absl::Span<const float>,
                        absl::Span<const int64_t>);
extern template absl::StatusOr<std::vector<std::vector<int64_t>>>
GatherAtRankZero<int64_t>(Communicator&, absl::Span<const int64_t>,
                          absl::Span<const int64_t>);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_GATHER_H_
