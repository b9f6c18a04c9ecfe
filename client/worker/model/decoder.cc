#include "client/worker/model/decoder.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "client/worker/model/initializer.h"
#include "core/base/error.h"
#include "core/base/status_exception.h"

namespace cpfeed {
namespace {

void CheckIds(const at::Tensor& ids, int64_t vocab_size) {
  const int64_t* const id = ids.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < ids.numel(); ++row) {
    if (id[row] >= 0 && id[row] < vocab_size) continue;
    throw StatusException(InvalidArgument(
        kBadOption,
        absl::StrCat("row ", row, " has the id ", id[row], "; must be in [0, ",
                     vocab_size, "), the model's vocabulary")));
  }
}

}  // namespace

Decoder::Decoder(const DecoderShape& shape, uint64_t seed) {
  Initializer initializer(seed);
  vocabulary_ = register_parameter(
      "vocabulary", initializer.Map(shape.vocab_size, shape.width));
  for (int64_t i = 0; i < shape.num_layers; ++i) {
    layers_.push_back(register_module(
        absl::StrCat("layer", i),
        std::make_shared<DecoderLayer>(shape, i % 2 == 0, initializer)));
  }
  norm_ = register_module("norm", std::make_shared<RmsNorm>(shape.width));
}

at::Tensor Decoder::Forward(const at::Tensor& input_ids,
                            const CallArguments& arguments) {
  CheckIds(input_ids, vocabulary_.size(0));
  at::Tensor hidden = at::embedding(vocabulary_, input_ids);
  for (const auto& layer : layers_) hidden = (*layer)(hidden, arguments);
  return at::linear((*norm_)(hidden), vocabulary_);
}

}  // namespace cpfeed
