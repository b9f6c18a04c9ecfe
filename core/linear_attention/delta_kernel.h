// The gated delta rule on one rank's part, as plain loops over arrays.
//
// For each value head, with state S [K, V]:
//   A_t = exp(g_t) S_{t-1}
//   d_t = beta_t (v_t - A_t^T k_t)
//   S_t = A_t + k_t d_t^T
//   o_t = S_t^T q_t
// (Yang et al., Gated Delta Networks, 2024.) Value head h reads key head
// h / (value_heads / key_heads). The state is 0 at the begin of a sequence.
//
// Over a whole part the state goes from S to M S + E, where M, [K, K], is the
// product of exp(g_t) (I - beta_t k_t k_t^T), later factors on the left, and E
// the state that the part reaches from 0.

#ifndef CPFEED_CORE_LINEAR_ATTENTION_DELTA_KERNEL_H_
#define CPFEED_CORE_LINEAR_ATTENTION_DELTA_KERNEL_H_

#include <cstdint>
#include <vector>

#include "core/linear_attention/token_part.h"

namespace cpfeed {

struct DeltaShape {
  int64_t key_heads = 0;
  int64_t value_heads = 0;  // A multiple of key_heads.
  int64_t key_dim = 0;      // K
  int64_t value_dim = 0;    // V

  int64_t state_size() const { return value_heads * key_dim * value_dim; }
  int64_t transition_size() const { return value_heads * key_dim * key_dim; }
};

// Row-major arrays of T float or double rows, which the caller owns.
template <class T>
struct DeltaArrays {
  T* q = nullptr;     // [T, key_heads, K], scaled
  T* k = nullptr;     // [T, key_heads, K]
  T* v = nullptr;     // [T, value_heads, V]
  T* g = nullptr;     // [T, value_heads]
  T* beta = nullptr;  // [T, value_heads]
};

// M [value_heads, K, K] and E [value_heads, K, V] of the part; M is 0 where a
// sequence begins in it, and the identity where it has no tokens.
template <class T>
void DeltaTransition(const DeltaShape& shape, const TokenPart& part,
                     const DeltaArrays<const T>& in, T* transition, T* end);

// `state` [value_heads, K, V] comes in as the state before the part and goes
// out as that behind it. Writes `out` [T, value_heads, V], and for each run
// that ends its sequence the state to `final_states` (at the sequence's place
// of [num_sequences, value_heads, K, V]), if not null.
template <class T>
void DeltaForward(const DeltaShape& shape, const TokenPart& part,
                  const DeltaArrays<const T>& in, T* state, T* out,
                  T* final_states);

// The gradient of the state before the part, [value_heads, K, V], by the part's
// own outputs, whose gradients are `dout`.
template <class T>
void DeltaStateGradient(const DeltaShape& shape, const TokenPart& part,
                        const DeltaArrays<const T>& in, const T* dout,
                        T* dstate);

// Adds to `gradients`, which the caller has set to 0, given the state before
// the part and the gradient of that behind it. Keeps a few states of one head
// at a time.
template <class T>
void DeltaBackward(const DeltaShape& shape, const TokenPart& part,
                   const DeltaArrays<const T>& in, const T* state,
                   const T* dout, const T* dstate_end,
                   const DeltaArrays<T>& gradients);

}  // namespace cpfeed

#endif  // CPFEED_CORE_LINEAR_ATTENTION_DELTA_KERNEL_H_
