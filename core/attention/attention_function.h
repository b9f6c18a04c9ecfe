// Context-parallel attention that LibTorch can differentiate.

#ifndef CPFEED_CORE_ATTENTION_ATTENTION_FUNCTION_H_
#define CPFEED_CORE_ATTENTION_ATTENTION_FUNCTION_H_

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/attention/kv_exchange.h"
#include "core/comm/communicator.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// How the ranks of a group do attention. Shared by the calls of all layers, and
// kept alive by their backward passes.
struct AttentionGroup {
  std::shared_ptr<const KvExchange> exchange;
  std::shared_ptr<const ShardPlan> plan;
  std::shared_ptr<Communicator> communicator;
};

// What a backward pass that fails throws; there is nobody to return a status
// to.
class AttentionError : public std::runtime_error {
 public:
  explicit AttentionError(absl::Status status)
      : std::runtime_error(std::string(status.message())),
        status_(std::move(status)) {}
  const absl::Status& status() const { return status_; }

 private:
  const absl::Status status_;
};

// ContextParallelAttention; `out` has a backward pass
// (ContextParallelAttentionBackward) if q, k or v ask for gradients, `lse` has
// none. All ranks of the group run their backward passes, and in the same
// order: their exchanges meet. A second derivative is not there.
//
// Errors: those of ContextParallelAttention.
absl::StatusOr<AttentionOutput> DifferentiableAttention(
    const AttentionInputs& inputs, const AttentionGroup& group);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_ATTENTION_FUNCTION_H_
