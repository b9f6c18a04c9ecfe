// The gated delta rule over one whole document, token by token.
//
// The formulas of delta_kernel.h with LibTorch's operators and its own
// derivatives. It shares no code with linear attention over ranks, which is
// measured against it.

#ifndef CPFEED_CLIENT_WORKER_DENSE_DELTA_H_
#define CPFEED_CLIENT_WORKER_DENSE_DELTA_H_

#include <ATen/core/Tensor.h>

#include "core/linear_attention/delta_rule.h"
#include "core/linear_attention/gated_delta.h"

namespace cpfeed {

struct DenseDelta {
  at::Tensor out;          // [tokens, value_heads, V]
  at::Tensor final_state;  // [value_heads, K, V]
  // These are undefined without a convolution.
  at::Tensor conv_out;  // [tokens, columns], after SiLU.
  at::Tensor g;         // [tokens, value_heads]
  at::Tensor beta;      // [tokens, value_heads]
};

// What ShardedDeltaRule gives for a document on one device: q and k are
// normalised if the options say so, and q is scaled. At least one token; shapes
// fit together.
DenseDelta DenseDeltaRule(const DeltaInputs& inputs,
                          const GatedDeltaOptions& options);

// What GatedDelta gives, likewise.
DenseDelta DenseGatedDelta(const GatedDeltaInputs& inputs,
                           const GatedDeltaOptions& options);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_DENSE_DELTA_H_
