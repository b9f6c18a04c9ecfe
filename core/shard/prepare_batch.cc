#include "core/shard/prepare_batch.h"

#include <utility>

#include "absl/strings/str_cat.h"
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

}  // namespace

int64_t PreparedBatch::ShardBytes() const {
  int64_t row_bytes = 0;
  for (const ThdTensor& tensor : thd.tensors) row_bytes += RowBytes(tensor);
  int64_t bytes = 0;
  for (const auto& plan : plans) {
    // Five arrays of lengths, four of them prefix sums, and the sequences of
    // each row travel to every rank.
    const auto per_rank = static_cast<int64_t>(
        (5 * plan->lengths.real.size() + 4 + plan->lengths.row_splits.size()) *
        sizeof(int32_t));
    for (const RankPlan& rank : plan->ranks) {
      bytes += rank.num_tokens * row_bytes + per_rank +
               static_cast<int64_t>(rank.segments.size() * sizeof(Segment));
    }
  }
  return bytes;
}

absl::StatusOr<PreparedBatch> PrepareBatch(const PackedBatch& batch,
                                           BatchOptions options,
                                           const LayoutSpec& layout,
                                           int cp_size) {
  const LayoutSpec resolved = ResolveLayout(
      layout, batch.seq_lens.has_value() || batch.seq_lens_padded.has_value());
  options.pad_rule = PadRuleOf(resolved, cp_size);
  PreparedBatch prepared;
  CF_ASSIGN_OR_RETURN(prepared.thd, ConvertToThd(batch, options));
  for (const ThdChunk& chunk : prepared.thd.chunks) {
    absl::StatusOr<ShardPlan> plan =
        PlanShards(chunk.lengths, resolved, cp_size);
    if (!plan.ok()) {
      if (prepared.thd.chunks.size() == 1) return plan.status();
      return Annotate(plan.status(),
                      absl::StrCat("chunk ", prepared.plans.size()));
    }
    prepared.plans.push_back(
        std::make_shared<const ShardPlan>(*std::move(plan)));
  }
  return prepared;
}

}  // namespace cpfeed
