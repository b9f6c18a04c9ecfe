#include "core/loss/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/sum.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/loss/labels.h"

namespace cpfeed {

absl::StatusOr<at::Tensor> CrossEntropySum(const at::Tensor& logits,
                                           const at::Tensor& labels) {
  KeptLabels kept;
  CF_RETURN_IF_ERROR(
      KeepLabels(logits, labels, logits.dim() == 2 ? logits.size(1) : 0, kept));
  const at::ScalarType type =
      logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor rows =
      at::index_select(logits, 0, IndexTensor(kept.rows)).to(type);
  const at::Tensor log_probabilities = at::log_softmax(rows, 1);
  return -at::sum(
      at::gather(log_probabilities, 1, IndexTensor(kept.labels).unsqueeze(1)));
}

absl::StatusOr<at::Tensor> LossShare(const at::Tensor& logits,
                                     const at::Tensor& labels,
                                     int64_t num_label_tokens_global) {
  if (num_label_tokens_global < 0) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("num_label_tokens_global is ", num_label_tokens_global,
                     "; must not be negative"));
  }
  CF_ASSIGN_OR_RETURN(const at::Tensor sum, CrossEntropySum(logits, labels));
  return sum / std::max<int64_t>(num_label_tokens_global, 1);
}

}  // namespace cpfeed
