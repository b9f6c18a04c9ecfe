// Each rank receives just the keys and values that its queries see.

#ifndef CPFEED_CORE_ATTENTION_PLANNED_EXCHANGE_H_
#define CPFEED_CORE_ATTENTION_PLANNED_EXCHANGE_H_

#include "core/attention/kv_exchange.h"

namespace cpfeed {

// Sender and receiver work out the rows from the plan (TransferTable). A rank
// receives them once, from their owner, while it attends to the sequences of
// which it needs nobody's rows; then it attends to the others. Gradients go
// back the same way and add up at the owner: its own first, then the others' in
// rank order. Any layout, any mask; the memory holds what the rank's queries
// see.
class PlannedExchange final : public KvExchange {
 public:
  absl::string_view name() const override { return "planned"; }
  absl::Status CheckSupport(const ShardPlan& plan, const AttentionMask& mask,
                            const AttentionHeads& heads) const override;
  absl::StatusOr<AttentionOutput> Forward(const AttentionInputs& inputs,
                                          const ShardPlan& plan,
                                          Communicator& group) const override;
  absl::StatusOr<AttentionGrads> Backward(const AttentionInputs& inputs,
                                          const AttentionOutput& output,
                                          const at::Tensor& dout,
                                          const ShardPlan& plan,
                                          Communicator& group) const override;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_PLANNED_EXCHANGE_H_
