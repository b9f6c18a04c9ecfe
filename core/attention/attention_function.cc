#include "core/attention/attention_function.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "core/attention/cp_attention.h"
#include "core/base/status_exception.h"

namespace cpfeed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the backward pass needs beside tensors.
struct Call : torch::CustomClassHolder {
  AttentionMask mask;
  double scale = 1.0;
  AttentionGroup group;
};

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& q,
                               const at::Tensor& k, const at::Tensor& v,
                               const c10::intrusive_ptr<Call>& call) {
    const absl::StatusOr<AttentionOutput> output = ContextParallelAttention(
        *call->group.exchange, InputsOf(q, k, v, *call), *call->group.plan,
        *call->group.communicator);
    if (!output.ok()) throw StatusException(output.status());
    context->save_for_backward({q, k, v, output->out, output->lse});
    context->mark_non_differentiable({output->lse});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return {output->out, output->lse};
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto holder = context->saved_data["call"].toCapsule();
    const auto& call = static_cast<const Call&>(*holder);
    const absl::StatusOr<AttentionGrads> grads =
        ContextParallelAttentionBackward(
            *call.group.exchange, InputsOf(saved[0], saved[1], saved[2], call),
            {saved[3], saved[4]}, gradients[0], *call.group.plan,
            *call.group.communicator);
    if (!grads.ok()) throw StatusException(grads.status());
    return {grads->dq, grads->dk, grads->dv, at::Tensor()};
  }

 private:
  static AttentionInputs InputsOf(const at::Tensor& q, const at::Tensor& k,
                                  const at::Tensor& v, const Call& call) {
    return {.q = q, .k = k, .v = v, .mask = call.mask, .scale = call.scale};
  }
};

}  // namespace

absl::StatusOr<AttentionOutput> DifferentiableAttention(
    const AttentionInputs& inputs, const AttentionGroup& group) {
  auto call = c10::make_intrusive<Call>();
  call->mask = inputs.mask;
  call->scale = inputs.scale;
  call->group = group;
  try {
    const variable_list output =
        AttentionFunction::apply(inputs.q, inputs.k, inputs.v, call);
    return AttentionOutput{output[0], output[1]};
  } catch (const StatusException& error) {
    return error.status();
  }
}

}  // namespace cpfeed
