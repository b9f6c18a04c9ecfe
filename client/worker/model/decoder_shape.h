// The numbers of the worker's model.

#ifndef CPFEED_CLIENT_WORKER_MODEL_DECODER_SHAPE_H_
#define CPFEED_CLIENT_WORKER_MODEL_DECODER_SHAPE_H_

#include <cstdint>

namespace cpfeed {

// A decoder whose layers take turns: the first has linear attention (the gated
// delta rule), the second softmax attention, and so on.
struct DecoderShape {
  int64_t vocab_size = 258;  // Bytes, their end and padding.
  int64_t num_layers = 3;
  int64_t width = 64;
  int64_t mlp_width = 128;
  int64_t num_heads = 4;
  int64_t num_kv_heads = 2;  // Divides num_heads.
  int64_t head_dim = 16;     // Even.
  int64_t delta_key_heads = 2;
  int64_t delta_value_heads = 4;  // A multiple of delta_key_heads.
  int64_t delta_head_dim = 16;    // Of keys and of values.
  int64_t conv_width = 4;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_DECODER_SHAPE_H_
