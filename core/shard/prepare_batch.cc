#include "core/shard/prepare_batch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/thd/convert.h"

namespace cpfeed {
namespace {

int64_t RowBytes(const ThdTensor& tensor) {
  int64_t bytes = ItemSize(tensor.dtype);
  for (const int64_t dim : tensor.outer) bytes *= dim;
  for (const int64_t dim : tensor.inner) bytes *= dim;
  return bytes;
}

// Of a token in all tensors.
int64_t RowBytes(const ThdBatch& batch) {
  int64_t bytes = 0;
  for (const ThdTensor& tensor : batch.tensors) bytes += RowBytes(tensor);
  return bytes;
}

// Five arrays of lengths, four of them prefix sums, and the sequences of each
// row travel to every rank.
int64_t DescriptionBytes(const PackedLengths& lengths) {
  return static_cast<int64_t>(
      (5 * lengths.real.size() + 4 + lengths.row_splits.size()) *
      sizeof(int32_t));
}

// No plan of `chunk`, and no shards of that plan, take more together. Segments
// count twice: in the plan and in the shards.
int64_t MostBytes(const ThdChunk& chunk, int64_t row_bytes,
                  const LayoutSpec& layout, int cp_size) {
  constexpr int64_t kEnormous = int64_t{1} << 56;
  const int64_t segments = MaxSegments(chunk.lengths, layout, cp_size);
  // token_multiple rounds the rows of every rank up.
  const int64_t pad_rows = layout.token_multiple * cp_size;
  const std::optional<int64_t> rows =
      CheckedMul(chunk.total_tokens + pad_rows, row_bytes);
  return std::min(rows.value_or(kEnormous), kEnormous) +
         2 * segments * static_cast<int64_t>(sizeof(Segment)) +
         cp_size * DescriptionBytes(chunk.lengths);
}

absl::StatusOr<std::shared_ptr<const ShardPlan>> MakePlan(
    const PackedLengths& lengths, const LayoutSpec& layout, int cp_size,
    PlanCache* plans) {
  if (plans != nullptr) return plans->Plan(lengths, layout, cp_size);
  CF_ASSIGN_OR_RETURN(ShardPlan plan, PlanShards(lengths, layout, cp_size));
  return std::make_shared<const ShardPlan>(std::move(plan));
}

}  // namespace

int64_t PreparedBatch::ShardBytes() const {
  const int64_t row_bytes = RowBytes(thd);
  int64_t bytes = 0;
  for (const auto& plan : plans) {
    const int64_t per_rank = DescriptionBytes(plan->lengths);
    for (const RankPlan& rank : plan->ranks) {
      bytes += rank.num_tokens * row_bytes + per_rank +
               static_cast<int64_t>(rank.segments.size() * sizeof(Segment));
    }
  }
  return bytes;
}

int64_t PreparedBatch::PlanBytes() const {
  size_t segments = 0;
  for (const auto& plan : plans) {
    for (const RankPlan& rank : plan->ranks) segments += rank.segments.size();
  }
  return static_cast<int64_t>(segments * sizeof(Segment));
}

absl::StatusOr<PreparedBatch> PrepareBatch(
    const PackedBatch& batch, BatchOptions options, const LayoutSpec& layout,
    int cp_size, const ChargeMemory& charge, PlanCache* plans) {
  CF_RETURN_IF_ERROR(CheckLayoutSpec(layout, cp_size));
  const LayoutSpec resolved = ResolveLayout(
      layout, batch.seq_lens.has_value() || batch.seq_lens_padded.has_value());
  options.pad_rule = PadRuleOf(resolved, cp_size);
  PreparedBatch prepared;
  CF_ASSIGN_OR_RETURN(prepared.thd, ConvertToThd(batch, options));
  if (charge) {
    const int64_t row_bytes = RowBytes(prepared.thd);
    int64_t bytes = 0;
    for (const ThdChunk& chunk : prepared.thd.chunks) {
      bytes += MostBytes(chunk, row_bytes, resolved, cp_size);
    }
    CF_RETURN_IF_ERROR(charge(bytes));
  }
  for (const ThdChunk& chunk : prepared.thd.chunks) {
    absl::StatusOr<std::shared_ptr<const ShardPlan>> plan =
        MakePlan(chunk.lengths, resolved, cp_size, plans);
    if (!plan.ok()) {
      if (prepared.thd.chunks.size() == 1) return plan.status();
      return Annotate(plan.status(),
                      absl::StrCat("chunk ", prepared.plans.size()));
    }
    prepared.plans.push_back(*std::move(plan));
  }
  return prepared;
}

}  // namespace cpfeed
