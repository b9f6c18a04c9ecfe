// The worker's model: a small decoder.

#ifndef CPFEED_CLIENT_WORKER_MODEL_DECODER_H_
#define CPFEED_CLIENT_WORKER_MODEL_DECODER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "client/worker/model/decoder_layer.h"
#include "client/worker/model/decoder_shape.h"
#include "client/worker/model/rms_norm.h"
#include "core/context/hookable_module.h"

namespace cpfeed {

// Logits [rows, vocab_size] of input_ids [rows] int64, with the argument
// position_ids [rows]. The vocabulary is tied: one matrix embeds tokens and
// scores the next ones. Equal seeds give equal parameters.
//
// Throws StatusException: INVALID_ARGUMENT for an id outside the vocabulary,
// and the layers' errors.
class Decoder : public HookableModule {
 public:
  Decoder(const DecoderShape& shape, uint64_t seed);

 protected:
  at::Tensor Forward(const at::Tensor& input_ids,
                     const CallArguments& arguments) override;

 private:
  at::Tensor vocabulary_;  // [vocab_size, width]
  std::vector<std::shared_ptr<DecoderLayer>> layers_;
  std::shared_ptr<RmsNorm> norm_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_DECODER_H_
