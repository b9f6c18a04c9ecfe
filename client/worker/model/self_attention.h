// Softmax attention of a layer.

#ifndef CPFEED_CLIENT_WORKER_MODEL_SELF_ATTENTION_H_
#define CPFEED_CLIENT_WORKER_MODEL_SELF_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "client/worker/model/decoder_shape.h"
#include "client/worker/model/initializer.h"
#include "core/context/hookable_module.h"

namespace cpfeed {

// Grouped-query attention with rotary positions over x [rows, width], one
// document or, in a PackedContext, a rank's rows of a stream. Takes the
// arguments position_ids [rows] and is_causal; without the latter it is causal
// where there is no attention_mask.
//
// Throws StatusException: INVALID_ARGUMENT without positions, UNIMPLEMENTED
// where an attention_mask is left (AttachContextParallelHooks drops it), and
// attention's errors.
class SelfAttention : public HookableModule {
 public:
  SelfAttention(const DecoderShape& shape, Initializer& initializer);

 protected:
  at::Tensor Forward(const at::Tensor& x,
                     const CallArguments& arguments) override;

 private:
  // [rows, heads, head_dim]
  at::Tensor Project(const at::Tensor& x, const at::Tensor& weight) const;

  const DecoderShape shape_;
  at::Tensor query_;   // [num_heads * head_dim, width]
  at::Tensor key_;     // [num_kv_heads * head_dim, width]
  at::Tensor value_;   // [num_kv_heads * head_dim, width]
  at::Tensor output_;  // [width, num_heads * head_dim]
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_SELF_ATTENTION_H_
