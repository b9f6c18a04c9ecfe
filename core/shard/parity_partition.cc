#include "core/shard/parity_partition.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_lengths.h"
#include "core/batch/parity.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "core/thd/parity_tensors.h"

namespace cpfeed {
namespace {

// What TransformerEngine asserts.
absl::Status CheckDivisible(const ParitySlots& slots, int64_t num_tokens,
                            int cp_size) {
  const int64_t multiple = int64_t{2} * cp_size;
  if (num_tokens <= 0 || num_tokens % multiple != 0) {
    return PythonError(
        "RuntimeError",
        absl::StrCat("there are ", num_tokens,
                     " tokens; must be a positive multiple of 2 * cp_size = ",
                     multiple));
  }
  for (size_t i = 0; i < slots.boundaries.size(); ++i) {
    if (slots.boundaries[i] % multiple == 0) continue;
    return PythonError(
        "RuntimeError",
        absl::StrCat("slot boundary ", i, " is ", slots.boundaries[i],
                     "; must be a multiple of 2 * cp_size = ", multiple));
  }
  return absl::OkStatus();
}

// What it would mis-shard in silence.
absl::Status CheckCover(const ParitySlots& slots, int64_t num_tokens) {
  const auto& boundaries = slots.boundaries;
  if (boundaries.empty() || boundaries.front() != 0 ||
      !std::is_sorted(boundaries.begin(), boundaries.end())) {
    return InvalidArgument(kLengthsInconsistent,
                           "cu_seqlens must ascend from 0");
  }
  if (boundaries.back() != num_tokens) {
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat("slots end at ", boundaries.back(), "; must be at ",
                     num_tokens, ", the number of tokens"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t ParitySlots::WidestSlot() const {
  int64_t widest = 0;
  for (size_t i = 1; i < boundaries.size(); ++i) {
    widest = std::max(widest, boundaries[i] - boundaries[i - 1]);
  }
  return widest;
}

absl::Status CheckParityRank(ParityRank rank) {
  if (rank.cp_size >= 1 && rank.cp_size <= kMaxCpSize && rank.cp_rank >= 0 &&
      rank.cp_rank < rank.cp_size) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kBadOption,
      absl::StrCat("cp_rank is ", rank.cp_rank, " of cp_size ", rank.cp_size,
                   "; must be in [0, cp_size), cp_size in [1, ", kMaxCpSize,
                   "]"));
}

absl::StatusOr<ParitySlots> ReadParitySlots(const ParityDict& chunk,
                                            int64_t filler) {
  if (!chunk.Has("cu_seqlens")) {
    return PythonError("KeyError", "cu_seqlens is missing");
  }
  const Tensor* const sums = chunk.FindTensor(
      chunk.Has("cu_seqlens_padded") ? "cu_seqlens_padded" : "cu_seqlens");
  if (sums == nullptr) {
    return PythonError("TypeError", "cu_seqlens is no tensor");
  }
  CF_ASSIGN_OR_RETURN(std::vector<int64_t> boundaries, sums->ToInt64());
  boundaries.erase(std::remove(boundaries.begin(), boundaries.end(), filler),
                   boundaries.end());
  return ParitySlots{.with_fillers = *sums,
                     .boundaries = std::move(boundaries)};
}

absl::StatusOr<std::vector<int32_t>> ParityPartition(const ParitySlots& slots,
                                                     int64_t num_tokens,
                                                     ParityRank rank) {
  CF_RETURN_IF_ERROR(CheckDivisible(slots, num_tokens, rank.cp_size));
  CF_RETURN_IF_ERROR(CheckCover(slots, num_tokens));
  PackedLengths lengths;
  for (size_t i = 1; i < slots.boundaries.size(); ++i) {
    lengths.padded.push_back(slots.boundaries[i] - slots.boundaries[i - 1]);
  }
  lengths.real = lengths.padded;
  lengths.row_splits = {0, lengths.num_sequences()};
  CF_ASSIGN_OR_RETURN(
      const ShardPlan plan,
      PlanShards(lengths, {Layout::kHeadTailPerSequence}, rank.cp_size));
  return LocalIndex(plan, rank.cp_rank);
}

}  // namespace cpfeed
