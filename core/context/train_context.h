// The scopes that a training step runs in.

#ifndef CPFEED_CORE_CONTEXT_TRAIN_CONTEXT_H_
#define CPFEED_CORE_CONTEXT_TRAIN_CONTEXT_H_

#include <optional>

#include "absl/status/statusor.h"
#include "core/context/scope.h"

namespace cpfeed {

// Enters, in this order: loss parallel, if asked; with a `cp_context` the
// kernels that tile, and then it. They are left in the reverse order, also by
// an exception. The factory can be entered once.
//
// Errors:
//   UNIMPLEMENTED  Compiled autograd is asked for (reason NOT_SUPPORTED):
//                  LibTorch's C++ modules are not compiled.
//   On entry       Those of `cp_context`; what was entered before it is left.
absl::StatusOr<ScopeFactory> TrainContext(
    bool enable_loss_parallel, bool enable_compiled_autograd,
    std::optional<ScopeFactory> cp_context = {});

// Whether this thread is in a loss-parallel scope: logits are then this rank's
// part of the vocabulary (see core/loss/vocab_parallel.h).
bool InLossParallel();

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_TRAIN_CONTEXT_H_
