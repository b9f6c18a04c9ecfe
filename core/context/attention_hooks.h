// Hooks that make a model's attention context-parallel.

#ifndef CPFEED_CORE_CONTEXT_ATTENTION_HOOKS_H_
#define CPFEED_CORE_CONTEXT_ATTENTION_HOOKS_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/context/hookable_module.h"
#include "core/context/sdpa.h"

namespace cpfeed {

// For every sub-module whose dotted name ends in "self_attn" (`model` itself
// has no name): where a call has the argument attention_mask, even a null, it
// is dropped and is_causal set. A mask of the whole rows cannot match shards.
// Calls without one are left as they are. Attaching again changes nothing.
std::vector<HookHandle> AttachContextParallelHooks(HookableModule& model);

// For the same sub-modules: while they run, also where they throw,
// ScaledDotProductAttention goes over the ranks of `group`. Without it each
// rank would attend to its own shard alone, and nothing would tell. A module
// that runs in a context that does so already is left to it. What is set is the
// calling thread's. Attaching again changes nothing.
std::vector<HookHandle> AttachCpSdpaHooks(
    HookableModule& model, std::shared_ptr<Communicator> group,
    RotateMethod method = RotateMethod::kAllGather);

// Linear attention inside a decoder layer.
class LinearAttentionModule : public HookableModule {
 public:
  // What the layer was called with: position_ids, or a null. Taken by the next
  // call, so that none sees those of an earlier step.
  void set_positions(std::optional<at::Tensor> positions) {
    positions_ = std::move(positions);
  }
  std::optional<at::Tensor> TakePositions() {
    return std::exchange(positions_, std::nullopt);
  }

 private:
  std::optional<at::Tensor> positions_;
};

// For every sub-module that has a layer_type and a child "linear_attn" that is
// a LinearAttentionModule: before the layer runs, the child is handed its
// argument position_ids. Attaching again changes nothing.
std::vector<HookHandle> AttachLinearAttnPositionHooks(HookableModule& model);

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_ATTENTION_HOOKS_H_
