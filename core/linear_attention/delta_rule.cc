#include "core/linear_attention/delta_rule.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/error.h"
#include "core/base/status_exception.h"
#include "core/comm/collectives.h"
#include "core/linear_attention/delta_kernel.h"

namespace cpfeed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

DeltaShape ShapeOf(const at::Tensor& k, const at::Tensor& v) {
  return {.key_heads = k.size(1),
          .value_heads = v.size(1),
          .key_dim = k.size(2),
          .value_dim = v.size(2)};
}

template <class T>
DeltaArrays<const T> ArraysOf(const DeltaInputs& in) {
  return {.q = in.q.const_data_ptr<T>(),
          .k = in.k.const_data_ptr<T>(),
          .v = in.v.const_data_ptr<T>(),
          .g = in.g.const_data_ptr<T>(),
          .beta = in.beta.const_data_ptr<T>()};
}

// Every rank's tensor, [cp_size, ...].
at::Tensor Gathered(const at::Tensor& own, Communicator& communicator) {
  std::vector<int64_t> shape = own.sizes().vec();
  shape.insert(shape.begin(), communicator.size());
  at::Tensor all = at::empty(shape, own.options());
  const std::vector<int64_t> sizes(communicator.size(),
                                   static_cast<int64_t>(own.nbytes()));
  const absl::Status status = AllGather(
      communicator,
      {static_cast<const std::byte*>(own.const_data_ptr()), own.nbytes()},
      sizes,
      absl::MakeSpan(static_cast<std::byte*>(all.mutable_data_ptr()),
                     all.nbytes()));
  if (!status.ok()) throw StatusException(status);
  return all;
}

// What the part of every rank does to a state.
struct Transitions {
  at::Tensor m;  // [cp_size, value_heads, K, K]
  at::Tensor e;  // [cp_size, value_heads, K, V]
};

template <class T>
Transitions GatherTransitions(const DeltaShape& shape, const DeltaInputs& in,
                              const PartGroup& group) {
  // One tensor, so that one exchange does.
  const int64_t keys = shape.key_dim;
  const int64_t values = shape.value_dim;
  const at::Tensor own =
      at::empty({shape.transition_size() + shape.state_size()}, in.k.options());
  T* const data = own.mutable_data_ptr<T>();
  DeltaTransition<T>(shape, group.part, ArraysOf<T>(in), data,
                     data + shape.transition_size());
  const at::Tensor all = Gathered(own, *group.communicator);
  const int64_t ranks = all.size(0);
  return {all.narrow(1, 0, shape.transition_size())
              .reshape({ranks, shape.value_heads, keys, keys}),
          all.narrow(1, shape.transition_size(), shape.state_size())
              .reshape({ranks, shape.value_heads, keys, values})};
}

// The state before this rank's part. Where a sequence begins, what came before
// is left out, not multiplied by 0: it may be inf or NaN.
at::Tensor StateBefore(const Transitions& all, const PartGroup& group) {
  at::Tensor state = at::zeros_like(all.e[0]);
  for (int j = 0; j < group.communicator->rank(); ++j) {
    const PartOutline& part = group.outlines[j];
    if (part.num_tokens == 0) continue;
    state = part.has_begin ? all.e[j] : at::bmm(all.m[j], state) + all.e[j];
  }
  return state.contiguous();
}

// The gradient of the state behind this rank's part. `gradients` [cp_size, ...]
// are those of the states before each part by its own outputs. Left out at
// begins as in StateBefore; there a part's own is 0 unless a sequence comes in.
at::Tensor GradientBehind(const at::Tensor& m, const at::Tensor& gradients,
                          const PartGroup& group) {
  const int rank = group.communicator->rank();
  at::Tensor gradient = at::zeros_like(gradients[0]);
  for (int j = group.plan->cp_size - 1; j > rank; --j) {
    const PartOutline& part = group.outlines[j];
    if (part.num_tokens == 0) continue;
    gradient = part.has_begin
                   ? gradients[j]
                   : at::bmm(m[j].transpose(1, 2), gradient) + gradients[j];
  }
  return gradient.contiguous();
}

struct Call : torch::CustomClassHolder {
  Call(std::shared_ptr<const PartGroup> group, bool with_final_states)
      : group(std::move(group)), with_final_states(with_final_states) {}
  const std::shared_ptr<const PartGroup> group;
  const bool with_final_states;
};

template <class T>
variable_list Forward(AutogradContext* context, const DeltaInputs& in,
                      const Call& call) {
  const PartGroup& group = *call.group;
  const DeltaShape shape = ShapeOf(in.k, in.v);
  const Transitions all = GatherTransitions<T>(shape, in, group);
  const at::Tensor before = StateBefore(all, group);
  const at::Tensor state = before.clone();
  variable_list output = {at::empty_like(in.v)};
  T* final_states = nullptr;
  if (call.with_final_states) {
    output.push_back(
        at::zeros({group.plan->lengths.num_sequences(), shape.value_heads,
                   shape.key_dim, shape.value_dim},
                  in.v.options()));
    final_states = output[1].mutable_data_ptr<T>();
  }
  DeltaForward<T>(shape, group.part, ArraysOf<T>(in),
                  state.mutable_data_ptr<T>(), output[0].mutable_data_ptr<T>(),
                  final_states);
  context->save_for_backward({in.q, in.k, in.v, in.g, in.beta, before, all.m});
  return output;
}

template <class T>
variable_list Backward(const DeltaInputs& in, const at::Tensor& before,
                       const at::Tensor& m, const at::Tensor& dout,
                       const PartGroup& group) {
  const DeltaShape shape = ShapeOf(in.k, in.v);
  const at::Tensor own = at::empty_like(before);
  DeltaStateGradient<T>(shape, group.part, ArraysOf<T>(in),
                        dout.const_data_ptr<T>(), own.mutable_data_ptr<T>());
  const at::Tensor behind =
      GradientBehind(m, Gathered(own, *group.communicator), group);
  variable_list gradients = {at::zeros_like(in.q), at::zeros_like(in.k),
                             at::zeros_like(in.v), at::zeros_like(in.g),
                             at::zeros_like(in.beta)};
  DeltaBackward<T>(shape, group.part, ArraysOf<T>(in),
                   before.const_data_ptr<T>(), dout.const_data_ptr<T>(),
                   behind.const_data_ptr<T>(),
                   {.q = gradients[0].mutable_data_ptr<T>(),
                    .k = gradients[1].mutable_data_ptr<T>(),
                    .v = gradients[2].mutable_data_ptr<T>(),
                    .g = gradients[3].mutable_data_ptr<T>(),
                    .beta = gradients[4].mutable_data_ptr<T>()});
  gradients.emplace_back();  // Of the call.
  return gradients;
}

class DeltaFunction : public torch::autograd::Function<DeltaFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& q,
                               const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& g, const at::Tensor& beta,
                               const c10::intrusive_ptr<Call>& call) {
    const DeltaInputs in = {q.contiguous(), k.contiguous(), v.contiguous(),
                            g.contiguous(), beta.contiguous()};
    const variable_list output = v.scalar_type() == at::kDouble
                                     ? Forward<double>(context, in, *call)
                                     : Forward<float>(context, in, *call);
    if (output.size() > 1) context->mark_non_differentiable({output[1]});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return output;
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto holder = context->saved_data["call"].toCapsule();
    const PartGroup& group = *static_cast<const Call&>(*holder).group;
    const DeltaInputs in = {saved[0], saved[1], saved[2], saved[3], saved[4]};
    const at::Tensor dout = gradients[0].contiguous();
    return dout.scalar_type() == at::kDouble
               ? Backward<double>(in, saved[5], saved[6], dout, group)
               : Backward<float>(in, saved[5], saved[6], dout, group);
  }
};

absl::Status CheckShape(const char* name, const at::Tensor& tensor,
                        c10::IntArrayRef shape, at::ScalarType dtype) {
  if (tensor.sizes() != shape) {
    return InvalidArgument(
        kShapeMismatch, absl::StrCat(name, " must have ", shape.size(),
                                     " axes that fit k and v and this rank's ",
                                     shape[0], " tokens"));
  }
  if (tensor.scalar_type() == dtype) return absl::OkStatus();
  return InvalidArgument(kShapeMismatch,
                         absl::StrCat(name, " must have the dtype of v"));
}

absl::Status Check(const DeltaInputs& in, const PartGroup& group) {
  const int64_t tokens = group.part.num_tokens;
  if (in.k.dim() != 3 || in.v.dim() != 3) {
    return InvalidArgument(kShapeMismatch, "k and v must have 3 axes");
  }
  const at::ScalarType dtype = in.v.scalar_type();
  if (dtype != at::kFloat && dtype != at::kDouble) {
    return InvalidArgument(kShapeMismatch, "v must be float32 or float64");
  }
  const DeltaShape shape = ShapeOf(in.k, in.v);
  if (shape.key_heads < 1 || shape.value_heads % shape.key_heads != 0) {
    return InvalidArgument(kNotDivisible,
                           absl::StrCat("v has ", shape.value_heads,
                                        " heads; must be a multiple of the ",
                                        shape.key_heads, " of k"));
  }
  const std::vector<int64_t> keys = {tokens, shape.key_heads, shape.key_dim};
  const std::vector<int64_t> values = {tokens, shape.value_heads,
                                       shape.value_dim};
  const std::vector<int64_t> heads = {tokens, shape.value_heads};
  absl::Status status = CheckShape("q", in.q, keys, dtype);
  status.Update(CheckShape("k", in.k, keys, dtype));
  status.Update(CheckShape("v", in.v, values, dtype));
  status.Update(CheckShape("g", in.g, heads, dtype));
  status.Update(CheckShape("beta", in.beta, heads, dtype));
  return status;
}

}  // namespace

DeltaOutput DeltaRule(const DeltaInputs& inputs,
                      std::shared_ptr<const PartGroup> group,
                      bool with_final_states) {
  const absl::Status status = Check(inputs, *group);
  if (!status.ok()) throw StatusException(status);
  const variable_list output = DeltaFunction::apply(
      inputs.q, inputs.k, inputs.v, inputs.g, inputs.beta,
      c10::make_intrusive<Call>(std::move(group), with_final_states));
  return {output[0], with_final_states ? output[1] : at::Tensor()};
}

}  // namespace cpfeed
