// Merges partial attention results into running ones, wherever the tensors are.

#ifndef CPFEED_CORE_ATTENTION_MERGE_ROWS_H_
#define CPFEED_CORE_ATTENTION_MERGE_ROWS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace cpfeed {

// Which rows of the result the rows of a part are: a run, or the numbers in
// `index` (int64, on the tensors' device), all different.
struct MergedRows {
  int64_t first = 0;
  std::optional<at::Tensor> index;
};

// Merges, in place, as MergePart does:
//
//   part_out  [rows, heads, head_dim], any float type, last axis contiguous
//   part_lse  [rows, heads], any strides, of lse's type; natural logarithm;
//             rows without keys have -inf or +inf
//   out, lse  [any, heads, head_dim] and [any, heads], contiguous, float32 or
//             float64
//
// All are on one device, a CUDA one or the CPU; on CUDA one kernel is queued on
// the current stream. Throws c10::Error where the launch fails, or the program
// was built without CUDA.
void MergeRows(const at::Tensor& part_out, const at::Tensor& part_lse,
               const MergedRows& rows, const at::Tensor& out,
               const at::Tensor& lse);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_MERGE_ROWS_H_
