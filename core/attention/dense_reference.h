// Attention over whole sequences in float64, the obvious way. Slow. Everything
// else is measured against it, so it shares no code with the rest of attention:
// no tiles, no merging, no shards, no LibTorch.

#ifndef CPFEED_CORE_ATTENTION_DENSE_REFERENCE_H_
#define CPFEED_CORE_ATTENTION_DENSE_REFERENCE_H_

#include <cstdint>
#include <vector>

namespace cpfeed {

// One sequence of `tokens` real tokens. Row-major arrays.
struct DenseSequence {
  int64_t tokens = 0;
  int64_t num_heads = 1;
  int64_t num_kv_heads = 1;  // Divides num_heads.
  int64_t head_dim = 1;
  int64_t value_dim = 1;
  double scale = 1.0;
  // Query p sees keys p - left .. p + right; -1 is unbounded.
  int64_t left = -1;
  int64_t right = 0;
  std::vector<double> q;  // [tokens, num_heads, head_dim]
  std::vector<double> k;  // [tokens, num_kv_heads, head_dim]
  std::vector<double> v;  // [tokens, num_kv_heads, value_dim]
};

struct DenseResult {
  std::vector<double> out;  // [tokens, num_heads, value_dim]
  std::vector<double> lse;  // [tokens, num_heads]
};

// out[p, h] = sum over visible j of softmax_j(scale * q[p, h] . k[j, g]) v[j,
// g] with g = h / (num_heads / num_kv_heads). A query that sees no key has out
// 0 and lse -inf; keys that it does not see are not read.
DenseResult DenseAttention(const DenseSequence& sequence);

struct DenseGrads {
  std::vector<double> dq;  // [tokens, num_heads, head_dim]
  std::vector<double> dk;  // [tokens, num_kv_heads, head_dim]
  std::vector<double> dv;  // [tokens, num_kv_heads, value_dim]
};

// The gradients of sum(dout * out), `dout` [tokens, num_heads, value_dim]. With
// the probabilities P of a query and head:
//
//   dv[j] += P[j] dout,  ds[j] = P[j] (dout . v[j] - dout . out)
//   dq += scale ds[j] k[j],  dk[j] += scale ds[j] q
DenseGrads DenseAttentionBackward(const DenseSequence& sequence,
                                  const std::vector<double>& dout);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_DENSE_REFERENCE_H_
