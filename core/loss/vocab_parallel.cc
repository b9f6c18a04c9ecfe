#include "core/loss/vocab_parallel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/collectives.h"
#include "core/comm/reduction.h"
#include "core/loss/labels.h"
#include "core/tensor/dtype.h"

namespace cpfeed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

absl::Status Reduce(Communicator& group, ReduceOp op,
                    const at::Tensor& tensor) {
  const DType dtype =
      tensor.scalar_type() == at::kDouble ? DType::kFloat64 : DType::kFloat32;
  return AllReduce(
      group, dtype, op,
      absl::MakeSpan(static_cast<std::byte*>(tensor.mutable_data_ptr()),
                     tensor.nbytes()));
}

// The columns of this rank inside the vocabulary.
struct Columns {
  int64_t begin = 0;
  int64_t vocabulary = 0;
};

absl::StatusOr<Columns> FindColumns(int64_t own, Communicator& group) {
  std::vector<int64_t> widths(group.size(), 0);
  widths[group.rank()] = own;
  CF_RETURN_IF_ERROR(
      AllReduce(group, DType::kInt64, ReduceOp::kSum,
                absl::MakeSpan(reinterpret_cast<std::byte*>(widths.data()),
                               widths.size() * sizeof(int64_t))));
  Columns columns;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank < group.rank()) columns.begin += widths[rank];
    columns.vocabulary += widths[rank];
  }
  return columns;
}

// Of the rows that take part: exp(logit - lse) of the own columns, and where
// among them the targets are.
struct Solved {
  at::Tensor probabilities;             // [kept, own columns]
  std::vector<int64_t> target_rows;     // Of `probabilities`.
  std::vector<int64_t> target_columns;  // Own.
  at::Tensor sum;                       // A scalar.
};

absl::StatusOr<Solved> Solve(const at::Tensor& rows, const KeptLabels& kept,
                             const Columns& columns, Communicator& group) {
  Solved solved;
  const int64_t own = rows.size(1);
  const at::Tensor most =
      own > 0
          ? at::amax(rows, 1).contiguous()
          : at::full({rows.size(0)}, -std::numeric_limits<double>::infinity(),
                     rows.options());
  CF_RETURN_IF_ERROR(Reduce(group, ReduceOp::kMax, most));
  solved.probabilities = at::exp(rows - most.unsqueeze(1));
  const at::Tensor total = at::sum(solved.probabilities, 1).contiguous();
  CF_RETURN_IF_ERROR(Reduce(group, ReduceOp::kSum, total));
  const at::Tensor target = at::zeros_like(total);
  for (size_t i = 0; i < kept.labels.size(); ++i) {
    const int64_t column = kept.labels[i] - columns.begin;
    if (column < 0 || column >= own) continue;
    const auto row = static_cast<int64_t>(i);
    solved.target_rows.push_back(row);
    solved.target_columns.push_back(column);
    target[row].copy_(rows[row][column]);
  }
  CF_RETURN_IF_ERROR(Reduce(group, ReduceOp::kSum, target));
  solved.probabilities.div_(total.unsqueeze(1));
  solved.sum = at::sum(at::log(total) + most - target);
  return solved;
}

struct Call : torch::CustomClassHolder {
  KeptLabels kept;
  Solved solved;
};

// The sum is there already; this gives it its backward pass.
class SumFunction : public torch::autograd::Function<SumFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const c10::intrusive_ptr<Call>& call) {
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->saved_data["shape"] = logits.sizes().vec();
    context->saved_data["dtype"] = static_cast<int64_t>(logits.scalar_type());
    return call->solved.sum;
  }

  static variable_list backward(AutogradContext* context,
                                const variable_list& gradients) {
    const auto holder = context->saved_data["call"].toCapsule();
    const auto& call = static_cast<const Call&>(*holder);
    at::Tensor rows = call.solved.probabilities.clone();
    for (size_t i = 0; i < call.solved.target_rows.size(); ++i) {
      rows[call.solved.target_rows[i]][call.solved.target_columns[i]] -= 1;
    }
    const auto dtype =
        static_cast<at::ScalarType>(context->saved_data["dtype"].toInt());
    const at::Tensor dlogits =
        at::zeros(context->saved_data["shape"].toIntVector(), rows.options());
    dlogits.index_copy_(0, IndexTensor(call.kept.rows), rows * gradients[0]);
    return {dlogits.to(dtype), at::Tensor()};
  }
};

}  // namespace

absl::StatusOr<at::Tensor> VocabParallelCrossEntropySum(
    const at::Tensor& logits, const at::Tensor& labels,
    const std::shared_ptr<Communicator>& group) {
  CF_ASSIGN_OR_RETURN(
      const Columns columns,
      FindColumns(logits.dim() == 2 ? logits.size(1) : 0, *group));
  auto call = c10::make_intrusive<Call>();
  CF_RETURN_IF_ERROR(
      KeepLabels(logits, labels, columns.vocabulary, call->kept));
  const at::ScalarType type =
      logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor rows =
      at::index_select(logits.detach(), 0, IndexTensor(call->kept.rows))
          .to(type);
  CF_ASSIGN_OR_RETURN(call->solved, Solve(rows, call->kept, columns, *group));
  return SumFunction::apply(logits, call);
}

}  // namespace cpfeed
