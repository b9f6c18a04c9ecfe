// Scaled-dot-product attention that a context can send over ranks.

#ifndef CPFEED_CORE_CONTEXT_SDPA_H_
#define CPFEED_CORE_CONTEXT_SDPA_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/attention/attention_function.h"
#include "core/comm/communicator.h"
#include "core/context/scope.h"

namespace cpfeed {

// How keys and values get to the other ranks: "allgather" or "alltoall", which
// passes them round the ring.
enum class RotateMethod { kAllGather, kAllToAll };

// Errors:
//   INVALID_ARGUMENT  Another name (reason BAD_OPTION).
absl::StatusOr<RotateMethod> ParseRotateMethod(absl::string_view name);

// Attention of q [B, H, S, D] over k and v [B, Hkv, S, D or Dv], H a multiple
// of Hkv; scale is D^-1/2 where none is given. Differentiable.
//
// Inside the scope of EnterCpSdpa each rank passes its S / cp_size positions of
// every row, head-tail (HEAD_TAIL_PER_ROW), and gets their outputs over the
// whole rows; inside that of EnterPackedSdpa its rows of one packed stream, B =
// 1, and their outputs over the documents they belong to. Outside, rows are
// whole.
//
// Throws StatusException: attention's errors, and those of its group.
at::Tensor ScaledDotProductAttention(const at::Tensor& q, const at::Tensor& k,
                                     const at::Tensor& v, bool is_causal,
                                     std::optional<double> scale = {});

// Sends this thread's ScaledDotProductAttention over the ranks of `group`.
std::unique_ptr<Scope> EnterCpSdpa(std::shared_ptr<Communicator> group,
                                   RotateMethod method);

// Sends it over the ranks of `group` that hold a packed stream by its plan.
std::unique_ptr<Scope> EnterPackedSdpa(AttentionGroup group);

// Whether this thread is in a scope of one of the two.
bool InCpSdpa();

// Keeps this thread's ScaledDotProductAttention to kernels that tile (flash),
// which never hold the whole S x S matrix of scores. On the CPU LibTorch has
// one for a v as wide as q alone; a wider or narrower v is left to its choice,
// as is what lies on another device.
std::unique_ptr<Scope> EnterTilingKernels();

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_SDPA_H_
