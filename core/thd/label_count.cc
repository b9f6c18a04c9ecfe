#include "core/thd/label_count.h"

#include <cstddef>
#include <cstring>

#include "core/base/status_macros.h"
#include "core/tensor/element_cursor.h"

namespace cpfeed {
namespace {

// Counters as wide as the elements make vector code without widening; a block
// is short enough for the narrowest.
constexpr int64_t kBlock = 64;

template <class T>
int64_t CountBlock(const std::byte* data, int64_t count) {
  T kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    T label;
    std::memcpy(&label, data + i * sizeof(T), sizeof(T));
    kept += label != static_cast<T>(kIgnoreLabel);
  }
  return kept;
}

template <class T>
int64_t Count(const Buffer& bytes) {
  ElementCursor cursor(bytes, sizeof(T));
  int64_t kept = 0;
  for (auto run = cursor.Peek(); run.count > 0; run = cursor.Peek()) {
    int64_t i = 0;
    for (; i + kBlock <= run.count; i += kBlock) {
      kept += CountBlock<T>(run.data + i * sizeof(T), kBlock);
    }
    kept += CountBlock<T>(run.data + i * sizeof(T), run.count - i);
    cursor.Advance(run.count);
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

}  // namespace cpfeed
