#include "core/batch/auto_pad.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/token_shape.h"

namespace cpfeed {
namespace {

// Grows the last slot of each group of `rows` rows.
void PadGroups(int64_t rows, int64_t multiple, PackedLengths& lengths) {
  for (int64_t row = 0; row < lengths.num_rows(); row += rows) {
    const auto begin = lengths.padded.begin() + lengths.row_splits[row];
    const auto end = lengths.padded.begin() + lengths.row_splits[row + rows];
    const int64_t sum = std::accumulate(begin, end, int64_t{0});
    *(end - 1) += RoundUp(sum, multiple) - sum;
  }
}

absl::Status CheckChunkSizes(int64_t rows_per_chunk, int64_t multiple,
                             const PackedLengths& lengths) {
  for (int64_t row = 0; row < lengths.num_rows(); row += rows_per_chunk) {
    int64_t sum = 0;  // Stays far below 2^63: it stops at the first excess.
    for (int64_t i = lengths.row_splits[row];
         i < lengths.row_splits[row + rows_per_chunk]; ++i) {
      sum += lengths.padded[i];
      if (sum < kMaxTokens) continue;
      return InvalidArgument(
          kBatchTooLarge,
          absl::StrCat("chunk ", row / rows_per_chunk,
                       " padded to multiples of ", multiple, " has at least ",
                       sum,
                       " positions; must be fewer than 2^31 = ", kMaxTokens));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AutoPad(const PadRule& rule, int64_t rows_per_chunk,
                     PackedLengths& lengths) {
  if (rule.multiple >= kMaxTokens) {
    return InvalidArgument(
        kBatchTooLarge,
        absl::StrCat("slots are to be padded to multiples of ", rule.multiple,
                     "; must be below 2^31 = ", kMaxTokens));
  }
  switch (rule.scope) {
    case PadRule::Scope::kNone:
      return absl::OkStatus();
    case PadRule::Scope::kSlot:
      for (int64_t& slot : lengths.padded) slot = RoundUp(slot, rule.multiple);
      break;
    case PadRule::Scope::kRow:
      PadGroups(1, rule.multiple, lengths);
      break;
    case PadRule::Scope::kChunk:
      PadGroups(rows_per_chunk, rule.multiple, lengths);
      break;
  }
  return CheckChunkSizes(rows_per_chunk, rule.multiple, lengths);
}

}  // namespace cpfeed
