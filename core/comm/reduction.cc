#include "core/comm/reduction.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

// Through memcpy: the bytes may lie at any address.
template <class T, class Op>
void Apply(absl::Span<const std::byte> from, absl::Span<std::byte> into,
           Op op) {
  for (size_t at = 0; at < from.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, &into[at], sizeof(T));
    std::memcpy(&b, &from[at], sizeof(T));
    a = op(a, b);
    std::memcpy(&into[at], &a, sizeof(T));
  }
}

template <class T>
void Reduce(ReduceOp op, absl::Span<const std::byte> from,
            absl::Span<std::byte> into) {
  switch (op) {
    case ReduceOp::kSum:
      return Apply<T>(from, into, [](T a, T b) { return a + b; });
    case ReduceOp::kMax:
      return Apply<T>(from, into, [](T a, T b) { return std::max(a, b); });
    case ReduceOp::kMin:
      return Apply<T>(from, into, [](T a, T b) { return std::min(a, b); });
  }
}

}  // namespace

absl::Status ReduceInto(DType dtype, ReduceOp op,
                        absl::Span<const std::byte> from,
                        absl::Span<std::byte> into) {
  const int64_t item_size = std::max<int64_t>(ItemSize(dtype), 1);
  if (from.size() != into.size() || from.size() % item_size != 0) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("reduction of ", from.size(), " into ", into.size(),
                     " bytes; must be equal and a multiple of ", item_size));
  }
  switch (dtype) {
    case DType::kInt32:
      Reduce<int32_t>(op, from, into);
      return absl::OkStatus();
    case DType::kInt64:
      Reduce<int64_t>(op, from, into);
      return absl::OkStatus();
    case DType::kFloat32:
      Reduce<float>(op, from, into);
      return absl::OkStatus();
    case DType::kFloat64:
      Reduce<double>(op, from, into);
      return absl::OkStatus();
    default:
      return InvalidArgument(
          kBadOption,
          absl::StrCat("reduction of ", DTypeName(dtype),
                       "; must be int32, int64, float32 or float64"));
  }
}

}  // namespace cpfeed
