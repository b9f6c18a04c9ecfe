// The operators torch.ops.cpfeed and the classes torch.classes.cpfeed. What
// they do is documented where Python users look, in cpfeed/torch/ops.py.

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>
#include <torch/library.h>

#include <cmath>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/torch_ops/handles.h"
#include "core/attention/attention_function.h"
#include "core/attention/index_tensor.h"
#include "core/attention/make_kv_exchange.h"
#include "core/base/error.h"
#include "core/comm/agreement.h"
#include "core/comm/c10d_communicator.h"
#include "core/comm/loopback_communicator.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {
namespace {

using Plan = c10::intrusive_ptr<PlanHandle>;
using Group = c10::intrusive_ptr<GroupHandle>;

Plan MakePlan(at::IntArrayRef real, at::IntArrayRef padded,
              at::IntArrayRef row_splits, const std::string& layout,
              int64_t cp_size, bool uneven, int64_t stripe_width,
              int64_t chunk_size, bool keep_padding, int64_t token_multiple) {
  if (cp_size < 1 || cp_size > kMaxCpSize) {
    Throw(InvalidArgument(
        kBadOption,
        absl::StrCat("cp_size is ", cp_size, "; must be 1 to ", kMaxCpSize)));
  }
  const PackedLengths lengths{.real = real.vec(),
                              .padded = padded.vec(),
                              .row_splits = row_splits.vec()};
  LayoutSpec spec{.layout = ValueOrThrow(ParseLayout(layout)),
                  .uneven = uneven,
                  .stripe_width = stripe_width,
                  .chunk_size = chunk_size,
                  .keep_padding = keep_padding,
                  .token_multiple = token_multiple};
  return c10::make_intrusive<PlanHandle>(
      std::make_shared<const ShardPlan>(ValueOrThrow(
          PlanShards(lengths, ResolveLayout(spec, /*has_lengths=*/true),
                     static_cast<int>(cp_size)))));
}

int RankIn(const ShardPlan& plan, int64_t cp_rank) {
  if (cp_rank < 0 || cp_rank >= plan.cp_size) {
    Throw(InvalidArgument(
        kBadOption, absl::StrCat("cp_rank is ", cp_rank, "; must be in [0, ",
                                 plan.cp_size, ")")));
  }
  return static_cast<int>(cp_rank);
}

at::Tensor IndexOf(const ShardPlan& plan, int64_t cp_rank, at::Device device) {
  return IndexTensor(LocalIndex(plan, RankIn(plan, cp_rank)), device)
      .to(at::kLong);
}

Group MakeGroup(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                const std::string& name, at::Device device) {
  return c10::make_intrusive<GroupHandle>(
      MakeC10dCommunicator(group, name, device));
}

// Of this process alone.
Group MakeLocalGroup() {
  return c10::make_intrusive<GroupHandle>(std::move(MakeLoopbackGroup(1)[0]));
}

std::tuple<at::Tensor, at::Tensor> CpAttention(
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const Plan& plan, const Group& group, const std::string& exchange,
    int64_t inner_size, int64_t window_left, int64_t window_right,
    std::optional<double> scale) {
  if (q.dim() != 3 || q.size(2) == 0) {
    Throw(InvalidArgument(kShapeMismatch, "q must be [rows, heads, head_dim]"));
  }
  const AttentionInputs inputs{
      .q = q,
      .k = k,
      .v = v,
      .mask = AttentionMask::Window(window_left, window_right),
      .scale = scale.value_or(1 / std::sqrt(static_cast<double>(q.size(2))))};
  const AttentionOutput output = ValueOrThrow(DifferentiableAttention(
      inputs, {.exchange = ValueOrThrow(MakeKvExchange(
                   exchange, {.inner_size = static_cast<int>(inner_size)})),
               .plan = plan->plan,
               .communicator = group->communicator}));
  return {output.out, output.lse};
}

// Differentiable by the operators that it is made of.
at::Tensor ShardByPlan(const at::Tensor& whole, const Plan& plan,
                       int64_t cp_rank, int64_t dim, const at::Scalar& fill) {
  int64_t total = 0;
  for (const int64_t slot : plan->plan->lengths.padded) total += slot;
  const int64_t axis = dim < 0 ? dim + whole.dim() : dim;
  if (axis < 0 || axis >= whole.dim() || whole.size(axis) != total) {
    Throw(InvalidArgument(
        kShapeMismatch,
        absl::StrCat("axis ", dim,
                     " of the tensor must be there and have the "
                     "plan's ",
                     total, " positions")));
  }
  const at::Tensor index = IndexOf(*plan->plan, cp_rank, whole.device());
  const RankPlan& rank = plan->plan->ranks[cp_rank];
  if (rank.pad_rows == 0) return at::index_select(whole, axis, index);
  const int64_t held = rank.num_tokens - rank.pad_rows;
  std::vector<int64_t> shape = whole.sizes().vec();
  shape[axis] = rank.num_tokens;
  at::Tensor part = whole.new_empty(shape).fill_(fill);
  return part.index_copy(
      axis, at::arange(held, index.options()),
      at::index_select(whole, axis, index.narrow(0, 0, held)));
}

void CheckPlan(const Plan& plan, const Group& group) {
  ThrowIfError(CheckDigestAgreement(*group->communicator, plan->plan->digest));
}

TORCH_LIBRARY(cpfeed, m) {
  m.class_<PlanHandle>("ShardPlan")
      .def("cp_size",
           [](const Plan& self) -> int64_t { return self->plan->cp_size; })
      // The bits of the unsigned digest.
      .def("digest",
           [](const Plan& self) {
             return static_cast<int64_t>(self->plan->digest);
           })
      .def("layout",
           [](const Plan& self) {
             return std::string(LayoutName(self->plan->spec.layout));
           })
      .def("num_tokens",
           [](const Plan& self, int64_t cp_rank) {
             return self->plan->ranks[RankIn(*self->plan, cp_rank)].num_tokens;
           })
      .def("index", [](const Plan& self, int64_t cp_rank) {
        return IndexOf(*self->plan, cp_rank, at::kCPU);
      });
  m.class_<GroupHandle>("Group")
      .def("rank",
           [](const Group& self) -> int64_t {
             return self->communicator->rank();
           })
      .def("size",
           [](const Group& self) -> int64_t {
             return self->communicator->size();
           })
      .def("bytes_received", [](const Group& self) {
        return self->communicator->bytes().received;
      });
  m.def(
      "plan_shards(int[] real, int[] padded, int[] row_splits, str layout, "
      "int cp_size, bool uneven, int stripe_width, int chunk_size, "
      "bool keep_padding, int token_multiple) -> "
      "__torch__.torch.classes.cpfeed.ShardPlan",
      &MakePlan);
  m.def(
      "group(__torch__.torch.classes.c10d.ProcessGroup group, str name, "
      "Device device) -> __torch__.torch.classes.cpfeed.Group",
      &MakeGroup);
  m.def("local_group() -> __torch__.torch.classes.cpfeed.Group",
        &MakeLocalGroup);
  m.def(
      "check_plan(__torch__.torch.classes.cpfeed.ShardPlan plan, "
      "__torch__.torch.classes.cpfeed.Group group) -> ()",
      &CheckPlan);
  m.def(
      "cp_attention(Tensor q, Tensor k, Tensor v, "
      "__torch__.torch.classes.cpfeed.ShardPlan plan, "
      "__torch__.torch.classes.cpfeed.Group group, str exchange, "
      "int inner_size, int window_left, int window_right, float? scale) -> "
      "(Tensor out, Tensor lse)",
      &CpAttention);
  m.def(
      "shard_by_plan(Tensor whole, "
      "__torch__.torch.classes.cpfeed.ShardPlan plan, int cp_rank, int dim, "
      "Scalar fill) -> Tensor",
      &ShardByPlan);
}

}  // namespace
}  // namespace cpfeed
