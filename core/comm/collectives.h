// Collectives over a Communicator. All ranks of the group call the same one
// with sizes that agree. Reductions add in rank order: the same bits on every
// rank and in every run.
//
// Bytes that one rank of n receives, for pieces of b bytes:
//   AllGather, AllToAll, ReduceScatter   (n - 1) * b
//   AllReduce of m bytes                 2 * (n - 1) / n * m
//
// Errors of all of them: INVALID_ARGUMENT where sizes do not fit together, and
// those of PendingExchange::Wait.

#ifndef CPFEED_CORE_COMM_COLLECTIVES_H_
#define CPFEED_CORE_COMM_COLLECTIVES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/comm/communicator.h"
#include "core/comm/reduction.h"
#include "core/tensor/dtype.h"

namespace cpfeed {

// Starts passing the blocks of `send`, in their order, to the next rank (the
// last one to rank 0) while those of the previous rank arrive in `receive`.
absl::StatusOr<std::unique_ptr<PendingExchange>> StartRingShift(
    Communicator& group, absl::Span<const absl::Span<const std::byte>> send,
    absl::Span<const absl::Span<std::byte>> receive);

// Puts the pieces of all ranks behind each other, in rank order. `sizes`
// [size] are the pieces' bytes; `send` has sizes[rank] and `receive` their sum.
absl::Status AllGather(Communicator& group, absl::Span<const std::byte> send,
                       absl::Span<const int64_t> sizes,
                       absl::Span<std::byte> receive);

// Sends piece p of `send` to rank p and puts what rank p sends at piece p of
// `receive`. Pieces lie behind each other and have the given sizes, [size].
absl::Status AllToAll(Communicator& group, absl::Span<const std::byte> send,
                      absl::Span<const int64_t> send_sizes,
                      absl::Span<std::byte> receive,
                      absl::Span<const int64_t> receive_sizes);

// Reduces over ranks and leaves piece r of the result at rank r. `counts`
// [size] are the pieces' elements; `send` has all pieces, `receive` the own
// one.
absl::Status ReduceScatter(Communicator& group, DType dtype, ReduceOp op,
                           absl::Span<const std::byte> send,
                           absl::Span<const int64_t> counts,
                           absl::Span<std::byte> receive);

// Reduces over ranks, in place, and leaves the result at all of them.
absl::Status AllReduce(Communicator& group, DType dtype, ReduceOp op,
                       absl::Span<std::byte> data);

// Returns when all ranks have called it.
absl::Status Barrier(Communicator& group);

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_COLLECTIVES_H_
