// Attention of ranks that trade rows for heads with their neighbours.

#ifndef CPFEED_CORE_ATTENTION_HEAD_SPLIT_ATTENTION_H_
#define CPFEED_CORE_ATTENTION_HEAD_SPLIT_ATTENTION_H_

#include "absl/status/statusor.h"
#include "core/attention/kv_exchange.h"
#include "core/comm/communicator.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// Rank p * inner_size + a is at place a of the p-th inner group. Each inner
// group trades rows for heads (HeadExchange); then the ranks at one place of
// all inner groups are a ring, with the rows of a whole inner group as a block;
// and the results go back to the rows' ranks. Padding does not travel round the
// ring. `inner_size` divides the number of ranks, and its ranks can share the
// heads (CheckHeadShares).
//
// With one inner group there is no ring, and any mask and layout work.
absl::StatusOr<AttentionOutput> HeadSplitForward(const AttentionInputs& inputs,
                                                 int inner_size,
                                                 const ShardPlan& plan,
                                                 Communicator& group);

// Queries, keys, values, outputs and their gradients travel to the heads'
// ranks, the gradients of queries, keys and values back in float32 (float64 for
// float64). Those of a kv head that several ranks share add up in rank order.
absl::StatusOr<AttentionGrads> HeadSplitBackward(const AttentionInputs& inputs,
                                                 const AttentionOutput& output,
                                                 const at::Tensor& dout,
                                                 int inner_size,
                                                 const ShardPlan& plan,
                                                 Communicator& group);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_HEAD_SPLIT_ATTENTION_H_
