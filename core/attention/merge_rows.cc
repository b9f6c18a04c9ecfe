#include "core/attention/merge_rows.h"

#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include "core/attention/merge_rows_host.h"
#include "core/attention/merge_rows_launch.h"
#include "core/attention/merge_rows_thread.h"

namespace cpfeed {
namespace {

PartType PartTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return PartType::kFloat64;
    case at::kFloat:
      return PartType::kFloat32;
    case at::kBFloat16:
      return PartType::kBfloat16;
    case at::kHalf:
      return PartType::kFloat16;
    default:
      TORCH_CHECK(false, "a part of attention is ", c10::toString(type));
  }
}

template <class T>
void MergeTyped(const at::Tensor& part_out, const at::Tensor& part_lse,
                const MergedRows& rows, const at::Tensor& out,
                const at::Tensor& lse) {
  const MergeRowsTask<T> task = {
      .part_out = part_out.const_data_ptr(),
      .part_type = PartTypeOf(part_out.scalar_type()),
      .part_row_stride = part_out.stride(0),
      .part_head_stride = part_out.stride(1),
      .part_lse = part_lse.const_data_ptr<T>(),
      .lse_row_stride = part_lse.stride(0),
      .lse_head_stride = part_lse.stride(1),
      .rows = rows.index ? rows.index->const_data_ptr<int64_t>() : nullptr,
      .first_row = rows.first,
      .num_rows = part_out.size(0),
      .heads = static_cast<int32_t>(part_out.size(1)),
      .head_dim = static_cast<int32_t>(part_out.size(2)),
      .out = out.mutable_data_ptr<T>(),
      .lse = lse.mutable_data_ptr<T>()};
  if (!out.is_cuda()) return RunMergeRowsOnHost(task);
  const c10::DeviceGuard guard(out.device());
  QueueMergeRows(task);
}

}  // namespace

void MergeRows(const at::Tensor& part_out, const at::Tensor& part_lse,
               const MergedRows& rows, const at::Tensor& out,
               const at::Tensor& lse) {
  TORCH_CHECK(out.is_contiguous() && lse.is_contiguous() &&
              (part_out.stride(2) == 1 || part_out.size(2) <= 1));
  if (out.scalar_type() == at::kDouble) {
    MergeTyped<double>(part_out, part_lse, rows, out, lse);
  } else {
    MergeTyped<float>(part_out, part_lse, rows, out, lse);
  }
}

}  // namespace cpfeed
