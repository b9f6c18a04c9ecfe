// What both losses ask of logits and labels.

#ifndef CPFEED_CORE_LOSS_LABELS_H_
#define CPFEED_CORE_LOSS_LABELS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace cpfeed {

// The rows that take part, and their labels.
struct KeptLabels {
  std::vector<int64_t> rows;
  std::vector<int64_t> labels;
};

// Errors:
//   INVALID_ARGUMENT  `logits` is not [rows, columns] of floats, `labels` not
//                     [rows] of int64, or a label is neither -100 nor in
//                     [0, vocabulary).
absl::Status KeepLabels(const at::Tensor& logits, const at::Tensor& labels,
                        int64_t vocabulary, KeptLabels& kept);

// [size] int64 with the numbers, which it copies.
at::Tensor IndexTensor(const std::vector<int64_t>& numbers);

}  // namespace cpfeed

#endif  // CPFEED_CORE_LOSS_LABELS_H_
