#include "client/worker/fault.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"

namespace cpfeed {
namespace {

// A copy of a tensor [rows] with two elements exchanged.
Tensor WithSwapped(const Tensor& tensor, int64_t a, int64_t b) {
  const int64_t item = ItemSize(tensor.dtype);
  auto [bytes, data] = Buffer::Allocate(tensor.bytes.size());
  tensor.bytes.CopyTo(data);
  std::swap_ranges(data + a * item, data + (a + 1) * item, data + b * item);
  return {.dtype = tensor.dtype, .shape = tensor.shape, .bytes = bytes};
}

}  // namespace

absl::StatusOr<Fault> ParseFault(absl::string_view name) {
  if (name.empty()) return Fault::kNone;
  if (name == "swap") return Fault::kSwap;
  if (name == "drop") return Fault::kDrop;
  if (name == "stale_kv") return Fault::kStaleKv;
  return InvalidArgument(
      kBadOption,
      absl::StrCat("fault is \"", name, "\"; must be swap, drop or stale_kv"));
}

absl::Status SwapRows(StepShard& shard) {
  for (Shard& chunk : shard.chunks) {
    if (chunk.num_tokens < 2) continue;
    for (NamedTensor& named : chunk.tensors) {
      if (named.tensor.shape.size() != 1) continue;
      named.tensor = WithSwapped(named.tensor, 0, chunk.num_tokens - 1);
    }
    return absl::OkStatus();
  }
  return InvalidArgument(kBadOption, "no chunk has two rows to swap");
}

}  // namespace cpfeed
