// The attention layer of the worker's attention job.

#ifndef CPFEED_CLIENT_WORKER_ATTENTION_SHAPE_H_
#define CPFEED_CLIENT_WORKER_ATTENTION_SHAPE_H_

#include <cmath>
#include <cstdint>

namespace cpfeed {

// Causal, float32, with values as wide as keys.
struct AttentionShape {
  int64_t num_heads = 4;
  int64_t num_kv_heads = 2;  // Divides num_heads.
  int64_t head_dim = 16;

  double scale() const { return 1.0 / std::sqrt(head_dim); }
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_ATTENTION_SHAPE_H_
