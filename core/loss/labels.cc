#include "core/loss/labels.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/thd/label_count.h"

namespace cpfeed {

absl::Status KeepLabels(const at::Tensor& logits, const at::Tensor& labels,
                        int64_t vocabulary, KeptLabels& kept) {
  if (logits.dim() != 2 || !at::isFloatingType(logits.scalar_type())) {
    return InvalidArgument(kShapeMismatch,
                           "logits must be [rows, vocabulary] of floats");
  }
  if (labels.dim() != 1 || labels.scalar_type() != at::kLong ||
      labels.size(0) != logits.size(0)) {
    return InvalidArgument(
        kShapeMismatch, absl::StrCat("labels must be int64 of shape [",
                                     logits.size(0), "], as logits have rows"));
  }
  const at::Tensor contiguous = labels.contiguous();
  const auto* const label = contiguous.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < labels.size(0); ++row) {
    if (label[row] == kIgnoreLabel) continue;
    if (label[row] < 0 || label[row] >= vocabulary) {
      return InvalidArgument(
          kShapeMismatch,
          absl::StrCat("label of row ", row, " is ", label[row],
                       "; must be -100 or in [0, ", vocabulary, ")"));
    }
    kept.rows.push_back(row);
    kept.labels.push_back(label[row]);
  }
  return absl::OkStatus();
}

at::Tensor IndexTensor(const std::vector<int64_t>& numbers) {
  at::Tensor index =
      at::empty({static_cast<int64_t>(numbers.size())}, at::kLong);
  std::copy(numbers.begin(), numbers.end(), index.mutable_data_ptr<int64_t>());
  return index;
}

}  // namespace cpfeed
