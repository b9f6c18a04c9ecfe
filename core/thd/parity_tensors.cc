#include "core/thd/parity_tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/parity.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"
#include "core/tensor/half.h"
#include "core/tensor/shape.h"

namespace cpfeed {
namespace {

int64_t NumElementsOf(const Tensor& tensor) {
  return tensor.bytes.size() / ItemSize(tensor.dtype);
}

// Bytes of one row of axis 0.
int64_t RowBytes(const Tensor& tensor) {
  int64_t bytes = ItemSize(tensor.dtype);
  for (size_t axis = 1; axis < tensor.shape.size(); ++axis) {
    bytes *= tensor.shape[axis];
  }
  return bytes;
}

template <class T>
T Load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

double LoadFloat(DType dtype, const std::byte* data) {
  switch (dtype) {
    case DType::kFloat16:
      return Float16ToFloat(Load<uint16_t>(data));
    case DType::kBfloat16:
      return Bfloat16ToFloat(Load<uint16_t>(data));
    case DType::kFloat32:
      return Load<float>(data);
    default:
      return Load<double>(data);
  }
}

std::vector<double> Floats(const Tensor& tensor) {
  const Buffer whole = tensor.bytes.Contiguous();
  const int64_t item_size = ItemSize(tensor.dtype);
  std::vector<double> values(NumElementsOf(tensor));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadFloat(tensor.dtype, whole.data() + i * item_size);
  }
  return values;
}

std::vector<int64_t> Integers(const Tensor& tensor) {
  auto values = tensor.ToInt64();
  CF_CHECK(values.ok());  // The callers have looked at the dtype.
  return *std::move(values);
}

// Where a cast has no answer, this is what the processor gives.
int64_t Truncate(double value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!(value >= -kLimit && value < kLimit)) {
    return std::numeric_limits<int64_t>::min();
  }
  return static_cast<int64_t>(value);
}

}  // namespace

bool IsPythonError(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return std::any_of(reason.begin(), reason.end(), absl::ascii_islower);
}

absl::StatusOr<Tensor> FlattenTokens(const Tensor& tensor, int64_t num_tokens) {
  const int64_t elements = NumElementsOf(tensor);
  if (num_tokens == 0) {
    return PythonError("RuntimeError",
                       "a tensor of 0 tokens cannot be flattened");
  }
  if (elements % num_tokens != 0) {
    return PythonError(
        "RuntimeError",
        absl::StrCat("shape ", ShapeString(tensor.shape),
                     " does not divide by the number of tokens ", num_tokens));
  }
  Tensor flat = tensor;
  flat.shape = {num_tokens};
  if (elements != num_tokens) flat.shape.push_back(elements / num_tokens);
  return flat;
}

absl::StatusOr<Tensor> SliceAxis0(const Tensor& tensor, int64_t begin,
                                  int64_t end) {
  if (tensor.shape.empty()) {
    return PythonError("IndexError", "a scalar tensor cannot be sliced");
  }
  begin = std::min(begin, tensor.shape[0]);
  end = std::min(end, tensor.shape[0]);
  const int64_t row_bytes = RowBytes(tensor);
  Tensor slice{.dtype = tensor.dtype,
               .shape = tensor.shape,
               .bytes = tensor.bytes.Slice(begin * row_bytes,
                                           (end - begin) * row_bytes)};
  slice.shape[0] = end - begin;
  return slice;
}

absl::StatusOr<Tensor> Stack(const std::vector<Tensor>& tensors) {
  Tensor stacked{.dtype = tensors[0].dtype, .shape = {}, .bytes = {}};
  for (const Tensor& tensor : tensors) {
    if (tensor.shape != tensors[0].shape) {
      return PythonError(
          "RuntimeError",
          absl::StrCat("chunks of shapes ", ShapeString(tensors[0].shape),
                       " and ", ShapeString(tensor.shape),
                       " cannot be stacked"));
    }
    stacked.bytes.Append(tensor.bytes);
  }
  stacked.shape.push_back(static_cast<int64_t>(tensors.size()));
  stacked.shape.insert(stacked.shape.end(), tensors[0].shape.begin(),
                       tensors[0].shape.end());
  return stacked;
}

absl::StatusOr<Tensor> TakeRows(const Tensor& tensor,
                                absl::Span<const int32_t> index) {
  const int64_t row_bytes = RowBytes(tensor);
  const Buffer whole = tensor.bytes.Contiguous();
  auto [bytes, out] =
      Buffer::Allocate(static_cast<int64_t>(index.size()) * row_bytes);
  for (const int32_t row : index) {
    if (row < 0 || row >= tensor.shape[0]) {
      return PythonError("IndexError",
                         absl::StrCat("row ", row, " is out of range; axis 0 ",
                                      "has ", tensor.shape[0]));
    }
    std::memcpy(out, whole.data() + row * row_bytes, row_bytes);
    out += row_bytes;
  }
  Tensor taken{
      .dtype = tensor.dtype, .shape = tensor.shape, .bytes = std::move(bytes)};
  taken.shape[0] = static_cast<int64_t>(index.size());
  return taken;
}

Tensor CastToInt64(const Tensor& tensor) {
  if (!IsFloat(tensor.dtype)) {
    return Tensor::FromVector(tensor.shape, Integers(tensor));
  }
  std::vector<int64_t> values;
  for (const double value : Floats(tensor)) values.push_back(Truncate(value));
  return Tensor::FromVector(tensor.shape, std::move(values));
}

Tensor EqualTo(const Tensor& tensor, int64_t value) {
  std::vector<uint8_t> equal;
  equal.reserve(NumElementsOf(tensor));
  if (IsFloat(tensor.dtype)) {
    for (const double element : Floats(tensor)) {
      equal.push_back(element == static_cast<double>(value));
    }
  } else {
    for (const int64_t element : Integers(tensor)) {
      equal.push_back(element == value);
    }
  }
  return Tensor{.dtype = DType::kBool,
                .shape = tensor.shape,
                .bytes = Buffer::FromVector(std::move(equal))};
}

}  // namespace cpfeed
