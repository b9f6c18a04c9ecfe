// One layer of the worker's model.

#ifndef CPFEED_CLIENT_WORKER_MODEL_DECODER_LAYER_H_
#define CPFEED_CLIENT_WORKER_MODEL_DECODER_LAYER_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "client/worker/model/decoder_shape.h"
#include "client/worker/model/initializer.h"
#include "client/worker/model/mlp.h"
#include "client/worker/model/rms_norm.h"
#include "core/context/hookable_module.h"

namespace cpfeed {

// x [rows, width] plus attention of its norm, plus the MLP of the norm of that.
// Its attention is its child self_attn or linear_attn.
class DecoderLayer : public HookableModule {
 public:
  DecoderLayer(const DecoderShape& shape, bool is_linear,
               Initializer& initializer);

  std::string layer_type() const override;

 protected:
  at::Tensor Forward(const at::Tensor& x,
                     const CallArguments& arguments) override;

 private:
  const bool is_linear_;
  std::shared_ptr<RmsNorm> attention_norm_;
  std::shared_ptr<RmsNorm> mlp_norm_;
  std::shared_ptr<Mlp> mlp_;
  std::shared_ptr<HookableModule> attention_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_DECODER_LAYER_H_
