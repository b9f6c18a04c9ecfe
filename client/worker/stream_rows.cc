#include "client/worker/stream_rows.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {

absl::StatusOr<at::ScalarType> ComputeTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return at::kDouble;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kBfloat16:
      return at::kBFloat16;
    default:
      return MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                       absl::StrCat("dtype is ", DTypeName(dtype),
                                    "; must be float64, float32 or bfloat16"));
  }
}

at::Tensor ViewOf(const std::vector<double>& values,
                  const std::vector<int64_t>& shape) {
  return at::from_blob(const_cast<double*>(values.data()), shape, at::kDouble);
}

at::Tensor ShardRows(const at::Tensor& stream,
                     const std::vector<int32_t>& index, at::ScalarType type) {
  std::vector<int64_t> shape = stream.sizes().vec();
  shape[0] = static_cast<int64_t>(index.size());
  const at::Tensor rows = at::zeros(shape, at::kDouble);
  for (size_t row = 0; row < index.size(); ++row) {
    if (index[row] < 0) continue;
    rows.select(0, static_cast<int64_t>(row))
        .copy_(stream.select(0, index[row]));
  }
  return rows.to(type);
}

void PutShardRows(const at::Tensor& shard, const std::vector<int32_t>& index,
                  std::vector<double>& stream) {
  const at::Tensor rows = shard.detach().to(at::kDouble).contiguous();
  const int64_t width = rows.numel() / std::max<int64_t>(rows.size(0), 1);
  const double* from = rows.const_data_ptr<double>();
  for (const int32_t position : index) {
    if (position >= 0) {
      std::copy_n(from, width, stream.begin() + position * width);
    }
    from += width;
  }
}

}  // namespace cpfeed
