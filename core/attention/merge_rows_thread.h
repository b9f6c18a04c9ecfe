// Merging partial attention results, row by row: what one thread does. For
// device and host.

#ifndef CPFEED_CORE_ATTENTION_MERGE_ROWS_THREAD_H_
#define CPFEED_CORE_ATTENTION_MERGE_ROWS_THREAD_H_

#include <cmath>
#include <cstdint>

#include "core/base/kernel_macros.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#else
#include "core/tensor/half.h"
#endif

namespace cpfeed {

enum class PartType : int32_t { kFloat64, kFloat32, kBfloat16, kFloat16 };

// As MergePart (merge.h) with T float or double, for rows that lie anywhere.
// Addresses are of the memory of who runs it; strides count elements.
template <class T>
struct MergeRowsTask {
  const void* part_out = nullptr;  // [num_rows, heads, head_dim] of part_type
  PartType part_type = PartType::kFloat32;
  int64_t part_row_stride = 0;
  int64_t part_head_stride = 0;
  const T* part_lse = nullptr;  // [num_rows, heads]; no key: -inf or +inf
  int64_t lse_row_stride = 0;
  int64_t lse_head_stride = 0;
  // Row i of the part is row rows[i] of the result, or first_row + i.
  const int64_t* rows = nullptr;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  T* out = nullptr;  // [any, heads, head_dim], contiguous
  T* lse = nullptr;  // [any, heads], contiguous
};

// A warp has one row of one head.
inline constexpr int kMergeWarp = 32;
inline constexpr int kMergeThreads = 256;

// How a row is merged: read by all threads of a warp before one of them writes
// the new lse.
template <class T>
struct MergeWeights {
  int64_t part = -1;  // row * heads + head of the part; -1: nothing to do
  int64_t result = 0;
  T keep = 0;
  T take = 0;
  T lse = 0;
};

template <class T>
CF_HOST_DEVICE inline MergeWeights<T> ReadMergeWeights(
    const MergeRowsTask<T>& task, int64_t pair) {
  MergeWeights<T> weights;
  if (pair >= task.num_rows * task.heads) return weights;
  const int64_t row = pair / task.heads;
  const int64_t head = pair % task.heads;
  const T part =
      task.part_lse[row * task.lse_row_stride + head * task.lse_head_stride];
  // Kernels mark rows without keys by either infinity.
  if (std::isinf(part)) return weights;
  const int64_t to =
      task.rows != nullptr ? task.rows[row] : task.first_row + row;
  weights.result = to * task.heads + head;
  const T lse = task.lse[weights.result];
  const T most = lse > part ? lse : part;
  const T weight = std::exp(lse - most);
  const T part_weight = std::exp(part - most);
  const T sum = weight + part_weight;
  weights.part = pair;
  weights.keep = weight / sum;
  weights.take = part_weight / sum;
  weights.lse = most + std::log(sum);
  return weights;
}

template <class T>
CF_HOST_DEVICE inline T LoadPart(const MergeRowsTask<T>& task, int64_t at) {
  switch (task.part_type) {
    case PartType::kFloat64:
      return static_cast<T>(static_cast<const double*>(task.part_out)[at]);
    case PartType::kFloat32:
      return static_cast<T>(static_cast<const float*>(task.part_out)[at]);
    default:
      break;
  }
  const uint16_t bits = static_cast<const uint16_t*>(task.part_out)[at];
#ifdef __CUDACC__
  if (task.part_type == PartType::kFloat16) {
    __half_raw raw;
    raw.x = bits;
    return static_cast<T>(__half2float(__half(raw)));
  }
  union {
    uint32_t bits;
    float value;
  } bfloat = {static_cast<uint32_t>(bits) << 16};
  return static_cast<T>(bfloat.value);
#else
  return static_cast<T>(task.part_type == PartType::kFloat16
                            ? Float16ToFloat(bits)
                            : Bfloat16ToFloat(bits));
#endif
}

template <class T>
CF_HOST_DEVICE inline void WriteMerged(const MergeRowsTask<T>& task,
                                       const MergeWeights<T>& weights,
                                       int lane) {
  if (weights.part < 0) return;
  const int64_t part = weights.part / task.heads * task.part_row_stride +
                       weights.part % task.heads * task.part_head_stride;
  T* const out = task.out + weights.result * task.head_dim;
  for (int32_t d = lane; d < task.head_dim; d += kMergeWarp) {
    out[d] = weights.keep * out[d] + weights.take * LoadPart(task, part + d);
  }
  if (lane == 0) task.lse[weights.result] = weights.lse;
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_MERGE_ROWS_THREAD_H_
