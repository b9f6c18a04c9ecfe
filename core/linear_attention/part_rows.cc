#include "core/linear_attention/part_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/error.h"
#include "core/base/status_exception.h"
#include "core/comm/collectives.h"

namespace cpfeed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor IndexOf(const std::vector<int64_t>& rows) {
  return at::from_blob(const_cast<int64_t*>(rows.data()),
                       {static_cast<int64_t>(rows.size())}, at::kLong);
}

std::vector<int64_t> Times(const std::vector<int64_t>& counts, int64_t bytes) {
  std::vector<int64_t> sizes;
  sizes.reserve(counts.size());
  for (const int64_t count : counts) sizes.push_back(count * bytes);
  return sizes;
}

// Sends rows `from` of `source` and puts what arrives at rows `to` of a tensor
// of `num_rows`, whose other rows are 0.
at::Tensor Move(const at::Tensor& source, const std::vector<int64_t>& from,
                const std::vector<int64_t>& from_counts,
                const std::vector<int64_t>& to,
                const std::vector<int64_t>& to_counts, int64_t num_rows,
                Communicator& communicator) {
  const at::Tensor sent = at::index_select(source, 0, IndexOf(from));
  std::vector<int64_t> shape = source.sizes().vec();
  shape[0] = static_cast<int64_t>(to.size());
  at::Tensor received = at::empty(shape, source.options());
  int64_t row_bytes = source.element_size();
  for (int64_t axis = 1; axis < source.dim(); ++axis) {
    row_bytes *= source.size(axis);
  }
  const absl::Status status = AllToAll(
      communicator,
      {static_cast<const std::byte*>(sent.const_data_ptr()), sent.nbytes()},
      Times(from_counts, row_bytes),
      absl::MakeSpan(static_cast<std::byte*>(received.mutable_data_ptr()),
                     received.nbytes()),
      Times(to_counts, row_bytes));
  if (!status.ok()) throw StatusException(status);
  shape[0] = num_rows;
  at::Tensor moved = at::zeros(shape, source.options());
  moved.index_copy_(0, IndexOf(to), received);
  return moved;
}

at::Tensor ToPart(const at::Tensor& shard, const PartGroup& group) {
  const RowMoves& moves = group.moves;
  return Move(shard, moves.send_rows, moves.send_counts, moves.receive_rows,
              moves.receive_counts, group.part.num_tokens, *group.communicator);
}

at::Tensor ToShard(const at::Tensor& part, const PartGroup& group) {
  const RowMoves& moves = group.moves;
  const int rank = group.communicator->rank();
  return Move(part, moves.receive_rows, moves.receive_counts, moves.send_rows,
              moves.send_counts, group.plan->ranks[rank].num_tokens,
              *group.communicator);
}

struct Call : torch::CustomClassHolder {
  explicit Call(std::shared_ptr<const PartGroup> group)
      : group(std::move(group)) {}
  const std::shared_ptr<const PartGroup> group;
};

template <bool to_part>
class MoveRows : public torch::autograd::Function<MoveRows<to_part>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const c10::intrusive_ptr<Call>& call) {
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return to_part ? ToPart(rows.contiguous(), *call->group)
                   : ToShard(rows.contiguous(), *call->group);
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const auto holder = context->saved_data["call"].toCapsule();
    const PartGroup& group = *static_cast<const Call&>(*holder).group;
    const at::Tensor gradient = gradients[0].contiguous();
    return {to_part ? ToShard(gradient, group) : ToPart(gradient, group),
            at::Tensor()};
  }
};

void CheckRows(const char* what, const at::Tensor& tensor, int64_t rows) {
  if (tensor.dim() > 0 && tensor.size(0) == rows) return;
  throw StatusException(InvalidArgument(
      kShapeMismatch,
      absl::StrCat(what, " has ", tensor.dim() > 0 ? tensor.size(0) : 0,
                   " rows; must have ", rows)));
}

}  // namespace

at::Tensor ShardToPart(const at::Tensor& shard,
                       std::shared_ptr<const PartGroup> group) {
  CheckRows("shard", shard,
            group->plan->ranks[group->communicator->rank()].num_tokens);
  return MoveRows<true>::apply(shard,
                               c10::make_intrusive<Call>(std::move(group)));
}

at::Tensor PartToShard(const at::Tensor& part,
                       std::shared_ptr<const PartGroup> group) {
  CheckRows("part", part, group->part.num_tokens);
  return MoveRows<false>::apply(part,
                                c10::make_intrusive<Call>(std::move(group)));
}

}  // namespace cpfeed
