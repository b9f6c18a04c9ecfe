#include "core/thd/label_count.h"

#include <cstring>

#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

template <class T>
int64_t CountInPiece(const std::byte* bytes, int64_t count) {
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    T label;
    std::memcpy(&label, bytes + i * sizeof(T), sizeof(T));
    kept += label != static_cast<T>(kIgnoreLabel);
  }
  return kept;
}

// An element that lies across fragments is put together in `carry`.
template <class T>
int64_t Count(const Buffer& bytes) {
  int64_t kept = 0;
  std::byte carry[sizeof(T)];
  size_t carried = 0;
  for (const Buffer::Fragment& fragment : bytes.fragments()) {
    const std::byte* at = fragment.data;
    int64_t left = fragment.size;
    if (carried > 0) {
      for (; carried < sizeof(T) && left > 0; --left) carry[carried++] = *at++;
      if (carried < sizeof(T)) continue;
      kept += CountInPiece<T>(carry, 1);
      carried = 0;
    }
    const int64_t whole = left / static_cast<int64_t>(sizeof(T));
    kept += CountInPiece<T>(at, whole);
    at += whole * sizeof(T);
    left -= whole * sizeof(T);
    for (; left > 0; --left) carry[carried++] = *at++;
  }
  return kept;
}

}  // namespace

int64_t CountLabelTokens(const Tensor& labels) {
  switch (labels.dtype) {
    case DType::kInt8:
      return Count<int8_t>(labels.bytes);
    case DType::kInt16:
      return Count<int16_t>(labels.bytes);
    case DType::kInt32:
      return Count<int32_t>(labels.bytes);
    case DType::kInt64:
      return Count<int64_t>(labels.bytes);
    default:
      CF_CHECK(labels.dtype == DType::kUint8);  // Never negative.
      return labels.bytes.size();
  }
}

int64_t CountLabelTokens(const Tensor& labels, int64_t begin, int64_t end) {
  const int64_t item = ItemSize(labels.dtype);
  return CountLabelTokens(
      {.dtype = labels.dtype,
       .shape = {end - begin},
       .bytes = labels.bytes.Slice(begin * item, (end - begin) * item)});
}

}  // namespace cpfeed
