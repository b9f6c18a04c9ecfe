// Shards the buffers of a BSHD batch while a context is entered.

#ifndef CPFEED_CORE_CONTEXT_CONTEXT_PARALLEL_H_
#define CPFEED_CORE_CONTEXT_CONTEXT_PARALLEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/comm/communicator.h"
#include "core/context/scope.h"

namespace cpfeed {

struct ContextParallelOptions {
  // The caller's tensors; they outlive the context. May be none.
  std::vector<at::Tensor*> buffers;
  std::vector<int64_t> sequence_dims;   // One for each buffer.
  std::vector<at::Tensor*> no_restore;  // Some of `buffers`: stay sharded.
  // Of this context alone; nothing is set for the process.
  std::string rotate_method = "allgather";
};

// PyTorch's context_parallel as create_context_parallel_ctx calls it. On entry
// every buffer becomes this rank's part of its sequence dim: with c = S / (2 *
// cp_size) the positions [r * c, (r + 1) * c) and [(2 * cp_size - 1 - r) * c,
// (2 * cp_size - r) * c); ScaledDotProductAttention goes over the ranks. On
// exit all but `no_restore` are whole again, as they were.
//
// Two buffers may be one tensor, which is cut once and stays sharded if one of
// them does.
//
// A buffer is changed in place, so that all handles to it see it; one that
// carries gradients is replaced by a differentiable part instead, and so is one
// that shares its memory with others (expanded, or a part of a larger tensor),
// which stay as they are.
//
// The factory can be entered once; the second time it returns
// FAILED_PRECONDITION.
//
// Errors:
//   INVALID_ARGUMENT  An unknown rotate method, unequal counts of buffers and
//                     dims, or a `no_restore` that is no buffer (by identity);
//                     on entry a dim out of range, one tensor as two buffers
//                     with unequal dims, or a length that 2 * cp_size does not
//                     divide (reason NOT_DIVISIBLE).
absl::StatusOr<ScopeFactory> ContextParallelContext(
    std::shared_ptr<Communicator> group, ContextParallelOptions options);

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_CONTEXT_PARALLEL_H_
