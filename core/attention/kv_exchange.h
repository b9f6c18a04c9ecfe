// How attention over a split sequence gets at the keys and values of the other
// ranks.

#ifndef CPFEED_CORE_ATTENTION_KV_EXCHANGE_H_
#define CPFEED_CORE_ATTENTION_KV_EXCHANGE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/attention/attention_heads.h"
#include "core/attention/attention_mask.h"
#include "core/comm/communicator.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// One rank's part of an attention problem. T is the rank's number of rows.
struct AttentionInputs {
  at::Tensor q;  // [T, num_heads, head_dim]
  at::Tensor k;  // [T, num_kv_heads, head_dim]
  at::Tensor v;  // [T, num_kv_heads, value_dim]
  AttentionMask mask;
  double scale = 1.0;  // Multiplies q . k.
};

struct AttentionOutput {
  at::Tensor out;  // [T, num_heads, value_dim] in q's dtype
  at::Tensor lse;  // [T, num_heads], float64 for float64 inputs, else float32
  // Of the bytes received, those that brought lse home. Exchanges that never
  // let queries leave their rank have none.
  int64_t lse_bytes_received = 0;
};

// Gradients in the shapes and the dtype of q, k and v.
struct AttentionGrads {
  at::Tensor dq;
  at::Tensor dk;
  at::Tensor dv;
};

// Stateless; one object may serve many threads.
class KvExchange {
 public:
  virtual ~KvExchange() = default;

  // "ring".
  virtual absl::string_view name() const = 0;

  // Whether it can do this, over more than one rank. With one rank there is
  // nothing to exchange and every exchange does everything.
  //
  // Errors:
  //   UNIMPLEMENTED     It cannot do the mask or the layout (reason
  //                     NOT_SUPPORTED); the message names the exchange and
  //                     what it cannot do.
  //   INVALID_ARGUMENT  The heads, or its own options, do not fit the number
  //                     of ranks; the message has the numbers.
  virtual absl::Status CheckSupport(const ShardPlan& plan,
                                    const AttentionMask& mask,
                                    const AttentionHeads& heads) const = 0;

  // Attention of this rank's queries over the keys of all ranks. All ranks of
  // the group call it with their parts of one problem, which has passed
  // ValidateAttention and CheckSupport. Tensors are contiguous.
  //
  // Errors: those of the group.
  virtual absl::StatusOr<AttentionOutput> Forward(
      const AttentionInputs& inputs, const ShardPlan& plan,
      Communicator& group) const = 0;

  // The gradients of this rank's q, k and v, where `output` is what Forward
  // returned for the same inputs, and `dout`, shaped like its `out` and of its
  // dtype, is the gradient of that. Keys and values travel once more, and their
  // gradients travel home in float32 (float64 for float64). Rows of `dout` that
  // are padding are not read.
  //
  // Errors: those of the group.
  virtual absl::StatusOr<AttentionGrads> Backward(
      const AttentionInputs& inputs, const AttentionOutput& output,
      const at::Tensor& dout, const ShardPlan& plan,
      Communicator& group) const = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_KV_EXCHANGE_H_
