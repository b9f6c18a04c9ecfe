// Linear attention of a layer: the gated delta rule.

#ifndef CPFEED_CLIENT_WORKER_MODEL_LINEAR_ATTENTION_H_
#define CPFEED_CLIENT_WORKER_MODEL_LINEAR_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "client/worker/model/decoder_shape.h"
#include "client/worker/model/initializer.h"
#include "client/worker/model/rms_norm.h"
#include "core/context/attention_hooks.h"
#include "core/linear_attention/gated_delta.h"

namespace cpfeed {

// Over x [rows, width]: one document or, in a PackedContext, a rank's rows of a
// stream. Its positions come from the layer (AttachLinearAttnPositionHooks).
//
// Throws StatusException: INVALID_ARGUMENT where the layer handed over no
// positions, or another number than there are rows, and the errors of
// GatedDelta.
class LinearAttention : public LinearAttentionModule {
 public:
  LinearAttention(const DecoderShape& shape, Initializer& initializer);

 protected:
  at::Tensor Forward(const at::Tensor& x,
                     const CallArguments& arguments) override;

 private:
  const GatedDeltaOptions options_;
  at::Tensor mixed_;    // [2 * key_heads * K + value_heads * V, width]: q, k, v
  at::Tensor gate_;     // [value_heads * V, width]
  at::Tensor a_;        // [value_heads, width]
  at::Tensor b_;        // [value_heads, width]
  at::Tensor conv_;     // [rows of mixed_, conv_width]
  at::Tensor a_log_;    // [value_heads]
  at::Tensor dt_bias_;  // [value_heads]
  at::Tensor output_;   // [width, value_heads * V]
  std::shared_ptr<RmsNorm> norm_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_LINEAR_ATTENTION_H_
