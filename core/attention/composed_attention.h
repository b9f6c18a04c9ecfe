// Attention over one tile by elementary operations, on any device.

#ifndef CPFEED_CORE_ATTENTION_COMPOSED_ATTENTION_H_
#define CPFEED_CORE_ATTENTION_COMPOSED_ATTENTION_H_

#include "core/attention/varlen_inputs.h"

namespace cpfeed {

// As VarlenForward and VarlenBackward. Computes in AccumulatorType, tile after
// tile, and writes out the scores of at most some 64 Mi pairs at a time.
VarlenResult ComposedForward(const VarlenInputs& in);
VarlenGrads ComposedBackward(const VarlenInputs& in, const at::Tensor& out,
                             const at::Tensor& lse, const at::Tensor& dout);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_COMPOSED_ATTENTION_H_
