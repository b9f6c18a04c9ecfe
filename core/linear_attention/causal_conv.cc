#include "core/linear_attention/causal_conv.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/error.h"
#include "core/base/status_exception.h"
#include "core/linear_attention/conv_kernel.h"

namespace cpfeed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows [begin, begin + count) of this rank's tensor that a peer takes part in.
struct PeerRows {
  int peer = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

// Who has this rank's halo, and whose halo this rank has.
struct HaloPlan {
  int64_t size = 0;
  std::vector<PeerRows> owners;   // Rows of the halo.
  std::vector<PeerRows> readers;  // Rows of the part.
};

HaloPlan PlanHalo(const PartGroup& group, int64_t width) {
  const int rank = group.communicator->rank();
  const TokenRange own = HaloOf(group.outlines[rank], width);
  HaloPlan plan{.size = own.size()};
  for (int peer = 0; peer < group.plan->cp_size; ++peer) {
    if (peer == rank) continue;
    const PartOutline& part = group.outlines[peer];
    const TokenRange have = {std::max(own.begin, part.begin),
                             std::min(own.end, part.end())};
    if (have.size() > 0) {
      plan.owners.push_back({peer, have.begin - own.begin, have.size()});
    }
    const TokenRange theirs = HaloOf(part, width);
    const TokenRange give = {std::max(theirs.begin, group.part.begin),
                             std::min(theirs.end, group.part.end())};
    if (give.size() > 0) {
      plan.readers.push_back(
          {peer, give.begin - group.part.begin, give.size()});
    }
  }
  return plan;
}

absl::Span<std::byte> BytesOf(const at::Tensor& rows) {
  return absl::MakeSpan(static_cast<std::byte*>(rows.mutable_data_ptr()),
                        rows.nbytes());
}

// Sends the rows of `from` and fills those of `to`; both contiguous.
void ExchangeRows(const at::Tensor& from, const std::vector<PeerRows>& sent,
                  const at::Tensor& to, const std::vector<PeerRows>& received,
                  Communicator& communicator) {
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  for (const PeerRows& rows : sent) {
    sends.push_back(
        {rows.peer, BytesOf(from.narrow(0, rows.begin, rows.count))});
  }
  for (const PeerRows& rows : received) {
    receives.push_back(
        {rows.peer, BytesOf(to.narrow(0, rows.begin, rows.count))});
  }
  const absl::Status status = communicator.Exchange(sends, receives);
  if (!status.ok()) throw StatusException(status);
}

at::Tensor RowsLike(const at::Tensor& tensor, int64_t rows) {
  return at::empty({rows, tensor.size(1)}, tensor.options());
}

template <class T>
at::Tensor Forward(const PartGroup& group, int64_t halo, const at::Tensor& x,
                   const at::Tensor& weight) {
  at::Tensor y = RowsLike(x, group.part.num_tokens);
  ConvForward<T>(group.part, halo, weight.size(0), weight.size(1),
                 x.const_data_ptr<T>(), weight.const_data_ptr<T>(),
                 y.mutable_data_ptr<T>());
  return y;
}

template <class T>
void Backward(const PartGroup& group, int64_t halo, const at::Tensor& x,
              const at::Tensor& weight, const at::Tensor& dy,
              const at::Tensor& dx, const at::Tensor& dweight) {
  ConvBackward<T>(group.part, halo, weight.size(0), weight.size(1),
                  x.const_data_ptr<T>(), weight.const_data_ptr<T>(),
                  dy.const_data_ptr<T>(), dx.mutable_data_ptr<T>(),
                  dweight.mutable_data_ptr<T>());
}

struct Call : torch::CustomClassHolder {
  Call(std::shared_ptr<const PartGroup> group, HaloPlan halo)
      : group(std::move(group)), halo(std::move(halo)) {}
  const std::shared_ptr<const PartGroup> group;
  const HaloPlan halo;
};

class ConvFunction : public torch::autograd::Function<ConvFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight,
                            const c10::intrusive_ptr<Call>& call) {
    const PartGroup& group = *call->group;
    const HaloPlan& halo = call->halo;
    const at::Tensor rows = x.contiguous();
    const at::Tensor taps = weight.contiguous();
    const at::Tensor before = RowsLike(rows, halo.size);
    ExchangeRows(rows, halo.readers, before, halo.owners, *group.communicator);
    const at::Tensor extended = at::cat({before, rows});
    context->save_for_backward({extended, taps});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return rows.scalar_type() == at::kDouble
               ? Forward<double>(group, halo.size, extended, taps)
               : Forward<float>(group, halo.size, extended, taps);
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto holder = context->saved_data["call"].toCapsule();
    const auto& call = static_cast<const Call&>(*holder);
    const PartGroup& group = *call.group;
    const at::Tensor dy = gradients[0].contiguous();
    const at::Tensor dx = at::zeros_like(saved[0]);
    const at::Tensor dweight = at::zeros_like(saved[1]);
    if (dy.scalar_type() == at::kDouble) {
      Backward<double>(group, call.halo.size, saved[0], saved[1], dy, dx,
                       dweight);
    } else {
      Backward<float>(group, call.halo.size, saved[0], saved[1], dy, dx,
                      dweight);
    }
    return {Home(call, dx), dweight, at::Tensor()};
  }

 private:
  // Sends the halo's gradients to the rows' owners, and adds those of the own
  // rows in rank order.
  static at::Tensor Home(const Call& call, const at::Tensor& dx) {
    int64_t count = 0;
    std::vector<PeerRows> arriving = call.halo.readers;
    for (PeerRows& rows : arriving) {
      rows.begin = count;
      count += rows.count;
    }
    const at::Tensor received = RowsLike(dx, count);
    ExchangeRows(dx, call.halo.owners, received, arriving,
                 *call.group->communicator);
    at::Tensor own =
        dx.narrow(0, call.halo.size, call.group->part.num_tokens).clone();
    for (size_t i = 0; i < arriving.size(); ++i) {
      own.narrow(0, call.halo.readers[i].begin, arriving[i].count)
          .add_(received.narrow(0, arriving[i].begin, arriving[i].count));
    }
    return own;
  }
};

absl::Status Check(const at::Tensor& x, const at::Tensor& weight,
                   const PartGroup& group) {
  if (x.dim() != 2 || x.size(0) != group.part.num_tokens) {
    return InvalidArgument(kShapeMismatch,
                           absl::StrCat("x must be [", group.part.num_tokens,
                                        ", channels], this rank's part"));
  }
  if (weight.dim() != 2 || weight.size(0) != x.size(1) || weight.size(1) < 1) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("weight must be [", x.size(1), " channels, width]"));
  }
  if (x.scalar_type() != weight.scalar_type() ||
      (x.scalar_type() != at::kFloat && x.scalar_type() != at::kDouble)) {
    return InvalidArgument(kShapeMismatch,
                           "x and weight must be both float32 or both float64");
  }
  return absl::OkStatus();
}

}  // namespace

at::Tensor CausalConv(const at::Tensor& x, const at::Tensor& weight,
                      std::shared_ptr<const PartGroup> group) {
  const absl::Status status = Check(x, weight, *group);
  if (!status.ok()) throw StatusException(status);
  HaloPlan halo = PlanHalo(*group, weight.size(1));
  return ConvFunction::apply(
      x, weight, c10::make_intrusive<Call>(std::move(group), std::move(halo)));
}

}  // namespace cpfeed
