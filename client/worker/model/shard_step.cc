#include "client/worker/model/shard_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "client/worker/shard_integers.h"
#include "client/worker/step_digest.h"
#include "core/base/status_exception.h"
#include "core/base/status_macros.h"
#include "core/comm/agreement.h"
#include "core/comm/collectives.h"
#include "core/comm/reduction.h"
#include "core/context/cp_utils.h"
#include "core/loss/cross_entropy.h"
#include "core/loss/labels.h"
#include "core/tensor/dtype.h"

namespace cpfeed {
namespace {

absl::StatusOr<at::Tensor> IntegersOf(const Shard& shard, const char* name) {
  CF_ASSIGN_OR_RETURN(const auto integers, ShardIntegers(shard, name));
  return IndexTensor(integers);
}

// This rank's share of the loss by one chunk; its gradients are added to the
// model's.
absl::StatusOr<double> TrainOnChunk(Decoder& model, const Shard& chunk,
                                    int64_t num_label_tokens_global,
                                    const AttentionGroup& group) {
  CF_ASSIGN_OR_RETURN(const at::Tensor ids, IntegersOf(chunk, "input_ids"));
  CF_ASSIGN_OR_RETURN(const at::Tensor labels, IntegersOf(chunk, "labels"));
  CF_ASSIGN_OR_RETURN(const at::Tensor positions,
                      IntegersOf(chunk, "position_ids"));
  CF_ASSIGN_OR_RETURN(
      const ScopeFactory context,
      TrainContext(/*enable_loss_parallel=*/false,
                   /*enable_compiled_autograd=*/false, PackedContext(group)));
  CF_ASSIGN_OR_RETURN(const auto scope, context());
  try {
    const at::Tensor logits =
        model(ids, {.tensors = {{"attention_mask", std::nullopt},
                                {"position_ids", positions}}});
    CF_ASSIGN_OR_RETURN(const at::Tensor share,
                        LossShare(logits, labels, num_label_tokens_global));
    share.backward();
    return share.item<double>();
  } catch (const StatusException& error) {
    return error.status();
  }
}

// Takes a model's gradients out, so that those of a step are alone; puts them
// back when it goes, with the step's added if Keep() was called.
class StepGradients {
 public:
  explicit StepGradients(const Decoder& model)
      : parameters_(model.parameters()) {
    for (const at::Tensor& parameter : parameters_) {
      earlier_.push_back(parameter.grad());
      parameter.mutable_grad() = at::Tensor();
    }
  }
  StepGradients(const StepGradients&) = delete;
  StepGradients& operator=(const StepGradients&) = delete;

  ~StepGradients() {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor& gradient = parameters_[i].mutable_grad();
      if (!keep_) {
        gradient = earlier_[i];
      } else if (earlier_[i].defined()) {
        gradient = earlier_[i].add_(gradient);
      }
    }
  }

  void Keep() { keep_ = true; }

 private:
  const std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> earlier_;
  bool keep_ = false;
};

absl::Status SumGradients(Decoder& model, Communicator& group) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flat;
  const std::vector<at::Tensor> parameters = model.parameters();
  for (const at::Tensor& parameter : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter);
    flat.push_back(gradient.reshape({-1}));
  }
  const at::Tensor sum = at::cat(flat);
  CF_RETURN_IF_ERROR(
      AllReduce(group, DType::kFloat32, ReduceOp::kSum,
                absl::MakeSpan(static_cast<std::byte*>(sum.mutable_data_ptr()),
                               sum.nbytes())));
  int64_t begin = 0;
  for (const at::Tensor& parameter : parameters) {
    parameter.mutable_grad().copy_(
        sum.narrow(0, begin, parameter.numel()).reshape(parameter.sizes()));
    begin += parameter.numel();
  }
  return absl::OkStatus();
}

}  // namespace

void AttachCpHooks(HookableModule& model, std::shared_ptr<Communicator> group) {
  AttachContextParallelHooks(model);
  AttachCpSdpaHooks(model, std::move(group));
  AttachLinearAttnPositionHooks(model);
}

absl::StatusOr<double> TrainOnShard(
    Decoder& model, const StepShard& shard,
    const std::shared_ptr<const KvExchange>& exchange,
    const std::shared_ptr<Communicator>& group) {
  CF_RETURN_IF_ERROR(CheckDigestAgreement(*group, StepDigest(shard)));
  StepGradients gradients(model);
  double loss = 0;
  for (const Shard& chunk : shard.chunks) {
    CF_ASSIGN_OR_RETURN(
        const double share,
        TrainOnChunk(
            model, chunk, shard.num_label_tokens_global,
            {.exchange = exchange, .plan = chunk.plan, .communicator = group}));
    loss += share;
  }
  CF_RETURN_IF_ERROR(SumGradients(model, *group));
  CF_RETURN_IF_ERROR(
      AllReduce(*group, DType::kFloat64, ReduceOp::kSum,
                {reinterpret_cast<std::byte*>(&loss), sizeof(loss)}));
  gradients.Keep();
  return loss;
}

}  // namespace cpfeed
