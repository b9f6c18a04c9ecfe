#include "client/worker/stale_kv_exchange.h"

#include <algorithm>
#include <utility>

namespace cpfeed {
namespace {

// `fresh` with the rows of `last` over its own.
at::Tensor Stale(const at::Tensor& fresh, const at::Tensor& last) {
  const int64_t rows = std::min(fresh.size(0), last.size(0));
  at::Tensor stale = fresh.clone();
  stale.narrow(0, 0, rows).copy_(last.narrow(0, 0, rows));
  return stale;
}

}  // namespace

StaleKvExchange::StaleKvExchange(const KvExchange& exchange,
                                 std::function<bool()> strikes)
    : exchange_(exchange), strikes_(std::move(strikes)) {}

absl::Status StaleKvExchange::CheckSupport(const ShardPlan& plan,
                                           const AttentionMask& mask,
                                           const AttentionHeads& heads) const {
  return exchange_.CheckSupport(plan, mask, heads);
}

absl::StatusOr<AttentionOutput> StaleKvExchange::Forward(
    const AttentionInputs& inputs, const ShardPlan& plan,
    Communicator& group) const {
  if (!strikes_) return exchange_.Forward(inputs, plan, group);
  AttentionInputs given = inputs;
  if (strikes_() && last_k_.defined()) {
    given.k = Stale(inputs.k, last_k_);
    given.v = Stale(inputs.v, last_v_);
  }
  last_k_ = inputs.k;
  last_v_ = inputs.v;
  return exchange_.Forward(given, plan, group);
}

absl::StatusOr<AttentionGrads> StaleKvExchange::Backward(
    const AttentionInputs& inputs, const AttentionOutput& output,
    const at::Tensor& dout, const ShardPlan& plan, Communicator& group) const {
  return exchange_.Backward(inputs, output, dout, plan, group);
}

}  // namespace cpfeed
