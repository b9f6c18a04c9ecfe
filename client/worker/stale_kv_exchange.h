// A fault: keys and values of an earlier call.

#ifndef CPFEED_CLIENT_WORKER_STALE_KV_EXCHANGE_H_
#define CPFEED_CLIENT_WORKER_STALE_KV_EXCHANGE_H_

#include <ATen/core/Tensor.h>

#include <functional>

#include "core/attention/kv_exchange.h"

namespace cpfeed {

// An exchange as another one, for one thread; but while `strikes` says so,
// Forward is given the keys and values of its call before, as far as they have
// rows, as an exchange is that sends a buffer too early.
class StaleKvExchange final : public KvExchange {
 public:
  // Both outlive it. Without `strikes` it is the other exchange, and keeps
  // nothing.
  StaleKvExchange(const KvExchange& exchange, std::function<bool()> strikes);

  absl::string_view name() const override { return exchange_.name(); }
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

 private:
  const KvExchange& exchange_;
  const std::function<bool()> strikes_;
  mutable at::Tensor last_k_;  // Undefined before the first call.
  mutable at::Tensor last_v_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_STALE_KV_EXCHANGE_H_
