// The gated delta rule over a stream that ranks hold in parts.

#ifndef CPFEED_CORE_LINEAR_ATTENTION_DELTA_RULE_H_
#define CPFEED_CORE_LINEAR_ATTENTION_DELTA_RULE_H_

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/linear_attention/part_group.h"

namespace cpfeed {

// This rank's part, float or double; value_heads is a multiple of key_heads.
struct DeltaInputs {
  at::Tensor q;     // [tokens, key_heads, K], scaled
  at::Tensor k;     // [tokens, key_heads, K]
  at::Tensor v;     // [tokens, value_heads, V]
  at::Tensor g;     // [tokens, value_heads]: log of the decay
  at::Tensor beta;  // [tokens, value_heads]
};

struct DeltaOutput {
  at::Tensor out;  // [tokens, value_heads, V]
  // [num_sequences, value_heads, K, V]: the states behind the sequences that
  // end in this part, 0 for others; the sum over ranks has all of them (those
  // of empty sequences are 0). Has no gradient. Undefined if not asked for: it
  // takes memory for each sequence of the batch, however few end here.
  at::Tensor final_states;
};

// See delta_kernel.h for the rule. Each rank runs its part from 0, ranks gather
// what each part does to a state, (M, E), of value_heads * K * (K + V) elements
// a rank however long the stream, fold those before their own, and run again
// from the state that comes in. The backward pass does the same from the end.
//
// Differentiable. Throws StatusException: INVALID_ARGUMENT for shapes, heads or
// dtypes that do not fit, and the group's errors.
DeltaOutput DeltaRule(const DeltaInputs& inputs,
                      std::shared_ptr<const PartGroup> group,
                      bool with_final_states = false);

}  // namespace cpfeed

#endif  // CPFEED_CORE_LINEAR_ATTENTION_DELTA_RULE_H_
