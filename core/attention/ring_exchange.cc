#include "core/attention/ring_exchange.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention/block_attention.h"
#include "core/attention/row_runs.h"
#include "core/attention/tensor_bytes.h"
#include "core/attention/tile_plan.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/collectives.h"
#include "core/plan/layout.h"

namespace cpfeed {
namespace {

struct KvBlock {
  at::Tensor k;
  at::Tensor v;

  KvBlock Rows(int64_t rows) const {
    return {k.narrow(0, 0, rows), v.narrow(0, 0, rows)};
  }
};

// Room for any rank's block.
KvBlock MakeRoom(const AttentionInputs& inputs, const ShardPlan& plan) {
  int64_t rows = 0;
  for (const RankPlan& rank : plan.ranks) {
    rows = std::max(rows, rank.num_tokens);
  }
  const auto room = [&](const at::Tensor& like) {
    return at::empty({rows, like.size(1), like.size(2)}, like.options());
  };
  return {room(inputs.k), room(inputs.v)};
}

absl::StatusOr<std::unique_ptr<PendingExchange>> StartShift(
    Communicator& group, const KvBlock& send, const KvBlock& receive) {
  return StartRingShift(group, {BytesOf(send.k), BytesOf(send.v)},
                        {MutableBytesOf(receive.k), MutableBytesOf(receive.v)});
}

}  // namespace

absl::Status RingExchange::CheckSupport(const ShardPlan& plan,
                                        const AttentionMask& mask) const {
  const auto unsupported = [](absl::string_view what) {
    return MakeError(
        absl::StatusCode::kUnimplemented, kNotSupported,
        absl::StrCat("exchange ring cannot do ", what, "; allgather can"));
  };
  if (mask.is_window()) {
    return unsupported(absl::StrCat("the mask ", MaskName(mask)));
  }
  switch (plan.spec.layout) {
    case Layout::kContiguous:
    case Layout::kHeadTailPerRow:
    case Layout::kHeadTailPerSequence:
      return absl::OkStatus();
    default:
      return unsupported(
          absl::StrCat("the layout ", LayoutName(plan.spec.layout)));
  }
}

absl::StatusOr<AttentionOutput> RingExchange::Forward(
    const AttentionInputs& inputs, const ShardPlan& plan,
    Communicator& group) const {
  const int size = group.size();
  const std::vector<RowRun> queries = RankRuns(plan, group.rank());
  BlockAttention attention(inputs.q, inputs.v.size(2), inputs.scale);
  std::array<KvBlock, 2> rooms;
  KvBlock block = {inputs.k, inputs.v};
  for (int step = 0; step < size; ++step) {
    const int source = (group.rank() + size - step) % size;
    KvBlock next;
    std::unique_ptr<PendingExchange> shift;
    if (step + 1 < size) {
      // The room of two steps ago: its block has been passed on.
      KvBlock& room = rooms[step % 2];
      if (!room.k.defined()) room = MakeRoom(inputs, plan);
      const int next_source = (source + size - 1) % size;
      next = room.Rows(plan.ranks[next_source].num_tokens);
      CF_ASSIGN_OR_RETURN(shift, StartShift(group, block, next));
    }
    attention.Add(PlanTiles(queries, RankRuns(plan, source), inputs.mask),
                  block.k, block.v);
    if (shift != nullptr) CF_RETURN_IF_ERROR(shift->Wait());
    block = next;
  }
  return AttentionOutput{attention.Output(), attention.lse()};
}

}  // namespace cpfeed
