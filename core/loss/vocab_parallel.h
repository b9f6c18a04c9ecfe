// Cross entropy where ranks hold parts of the vocabulary ("loss parallel").

#ifndef CPFEED_CORE_LOSS_VOCAB_PARALLEL_H_
#define CPFEED_CORE_LOSS_VOCAB_PARALLEL_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "absl/status/statusor.h"
#include "core/comm/communicator.h"

namespace cpfeed {

// CrossEntropySum of logits whose columns are cut over the ranks of `group` in
// rank order: `logits` [rows, own columns], labels [rows] over the whole
// vocabulary and the same on all ranks. Parts may be of unequal width. No rank
// sees another's logits: ranks add up the largest logit, the sum of exponents
// and the target's logit of each row, 3 numbers a row. Every rank gets the same
// sum, float32 (float64 for float64 logits).
//
// Differentiable: the gradient of the own columns, without any exchange.
//
// Errors: those of CrossEntropySum and of the group.
absl::StatusOr<at::Tensor> VocabParallelCrossEntropySum(
    const at::Tensor& logits, const at::Tensor& labels,
    const std::shared_ptr<Communicator>& group);

}  // namespace cpfeed

#endif  // CPFEED_CORE_LOSS_VOCAB_PARALLEL_H_
