#include "core/attention/varlen_attention.h"

#include <ATen/Context.h>
#include <ATen/ops/index_select.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "core/attention/index_tensor.h"
#include "core/attention/merge_rows.h"
#include "core/attention/varlen_batch.h"
#include "core/attention/varlen_kernel.h"

namespace cpfeed {
namespace {

// Some rows of tensors, packed and unpacked.
class PackedRows {
 public:
  PackedRows(const std::vector<int64_t>& rows, at::Device device)
      : count_(static_cast<int64_t>(rows.size())) {
    if (const std::optional<int64_t> first = FirstOfRun(rows)) {
      rows_.first = *first;
    } else {
      rows_.index = IndexTensor(rows, device);
    }
  }

  const MergedRows& rows() const { return rows_; }

  at::Tensor Of(const at::Tensor& tensor) const {
    if (rows_.index) return at::index_select(tensor, 0, *rows_.index);
    return tensor.narrow(0, rows_.first, count_);
  }

  // No row is there twice: the order of additions does not matter.
  void AddTo(const at::Tensor& packed, const at::Tensor& into) const {
    if (rows_.index) {
      into.index_add_(0, *rows_.index, packed.to(into.scalar_type()));
    } else {
      into.narrow(0, rows_.first, count_).add_(packed);
    }
  }

 private:
  const int64_t count_;
  MergedRows rows_;
};

VarlenKernel KernelFor(const VarlenBatch& batch, const at::Tensor& q,
                       const at::Tensor& v) {
  return ChooseVarlenKernel(q.is_cuda(), q.scalar_type(), q.size(2), v.size(2),
                            batch.kind,
                            at::globalContext().deterministicAlgorithms());
}

}  // namespace

void AddVarlen(const TilePlan& plan, const at::Tensor& q, const at::Tensor& k,
               const at::Tensor& v, double scale, const at::Tensor& out,
               const at::Tensor& lse) {
  for (const VarlenBatch& batch : VarlenBatches(plan)) {
    const PackedRows queries(QueryRows(batch), q.device());
    const PackedRows keys(KeyRows(batch), q.device());
    const VarlenResult part =
        VarlenForward(KernelFor(batch, q, v), {.plan = plan,
                                               .batch = batch,
                                               .q = queries.Of(q),
                                               .k = keys.Of(k),
                                               .v = keys.Of(v),
                                               .scale = scale});
    MergeRows(part.out, part.lse, queries.rows(), out, lse);
  }
}

void AddVarlenGrad(const TilePlan& plan, const VarlenQueries& queries,
                   const at::Tensor& k, const at::Tensor& v,
                   const at::Tensor& dq, const at::Tensor& dk,
                   const at::Tensor& dv) {
  const at::Tensor& q = queries.q;
  for (const VarlenBatch& batch : VarlenBatches(plan)) {
    const PackedRows rows(QueryRows(batch), q.device());
    const PackedRows keys(KeyRows(batch), q.device());
    const VarlenGrads grads =
        VarlenBackward(KernelFor(batch, q, v),
                       {.plan = plan,
                        .batch = batch,
                        .q = rows.Of(q),
                        .k = keys.Of(k),
                        .v = keys.Of(v),
                        .scale = queries.scale},
                       rows.Of(queries.out), rows.Of(queries.lse).contiguous(),
                       rows.Of(queries.dout));
    rows.AddTo(grads.dq, dq);
    keys.AddTo(grads.dk, dk);
    keys.AddTo(grads.dv, dv);
  }
}

}  // namespace cpfeed
