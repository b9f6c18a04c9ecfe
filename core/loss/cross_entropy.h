// Cross entropy of next tokens over ranks that share a batch.

#ifndef CPFEED_CORE_LOSS_CROSS_ENTROPY_H_
#define CPFEED_CORE_LOSS_CROSS_ENTROPY_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace cpfeed {

// The sum over rows of -log softmax(logits)[label], a scalar of float32
// (float64 for float64 logits). Rows whose label is -100 are left out, not
// multiplied by 0, so that a NaN in them stays out; without any other row the
// sum is 0 and its gradients are 0. Differentiable.
//
// Logits are [rows, vocabulary], float64, float32 or bfloat16; labels [rows],
// int64.
//
// Errors:
//   INVALID_ARGUMENT  Shapes or dtypes do not fit, or a label is neither -100
//                     nor in [0, vocabulary); the message has its row.
absl::StatusOr<at::Tensor> CrossEntropySum(const at::Tensor& logits,
                                           const at::Tensor& labels);

// A rank's share of the mean over the whole batch:
//   CrossEntropySum / max(num_label_tokens_global, 1).
// The loss is the sum of all ranks' shares; so are its gradients. The count is
// that of the whole step (StepShard::num_label_tokens_global), never a rank's
// own: ranks have unequally many labels, and some none.
//
// Example: rank 0 has 3 labels with a sum of 6, rank 1 has 1 with 4: shares 1.5
// and 1, loss 2.5. A mean of means would give (2 + 4) / 2 = 3.
//
// Errors: those of CrossEntropySum, and
//   INVALID_ARGUMENT  A negative count.
absl::StatusOr<at::Tensor> LossShare(const at::Tensor& logits,
                                     const at::Tensor& labels,
                                     int64_t num_label_tokens_global);

}  // namespace cpfeed

#endif  // CPFEED_CORE_LOSS_CROSS_ENTROPY_H_
