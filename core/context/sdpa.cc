#include "core/context/sdpa.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention/attention_function.h"
#include "core/attention/kv_exchange.h"
#include "core/attention/make_kv_exchange.h"
#include "core/base/error.h"
#include "core/base/status_exception.h"
#include "core/base/status_macros.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {
namespace {

// Attention over ranks, and the plans of the shapes that it saw.
class CpSdpa {
 public:
  CpSdpa(std::shared_ptr<Communicator> group, RotateMethod method)
      : group_{.communicator = std::move(group)} {
    auto exchange = MakeKvExchange(
        method == RotateMethod::kAllGather ? "allgather" : "ring");
    CF_CHECK(exchange.ok());
    group_.exchange = *std::move(exchange);
  }

  // Always by the plan of `group`.
  explicit CpSdpa(AttentionGroup group) : group_(std::move(group)) {}

  at::Tensor Attend(const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, bool is_causal, double scale) {
    const int64_t rows = q.size(0);
    const int64_t width = q.size(2);
    const absl::StatusOr<AttentionOutput> output = DifferentiableAttention(
        {.q = ToTokens(q),
         .k = ToTokens(k),
         .v = ToTokens(v),
         .mask = is_causal ? AttentionMask::Causal() : AttentionMask::Full(),
         .scale = scale},
        {.exchange = group_.exchange,
         .plan = PlanOf(rows, width),
         .communicator = group_.communicator});
    if (!output.ok()) throw StatusException(output.status());
    return output->out.reshape({rows, width, q.size(1), v.size(3)})
        .transpose(1, 2);
  }

 private:
  // [B, H, S, D] to [B * S, H, D].
  static at::Tensor ToTokens(const at::Tensor& heads) {
    return heads.transpose(1, 2)
        .reshape({heads.size(0) * heads.size(2), heads.size(1), heads.size(3)})
        .contiguous();
  }

  std::shared_ptr<const ShardPlan> PlanOf(int64_t rows, int64_t local_width) {
    if (group_.plan != nullptr) {
      if (rows == 1) return group_.plan;
      throw StatusException(InvalidArgument(
          kShapeMismatch,
          absl::StrCat("q has ", rows, " rows; must have 1, a packed stream")));
    }
    auto& plan = plans_[{rows, local_width}];
    if (plan != nullptr) return plan;
    const int64_t width = local_width * group_.communicator->size();
    PackedLengths lengths{.real = std::vector<int64_t>(rows, width),
                          .padded = std::vector<int64_t>(rows, width)};
    for (int64_t row = 0; row <= rows; ++row) lengths.row_splits.push_back(row);
    absl::StatusOr<ShardPlan> planned =
        PlanShards(lengths, {.layout = Layout::kHeadTailPerRow},
                   group_.communicator->size());
    if (!planned.ok()) throw StatusException(planned.status());
    plan = std::make_shared<const ShardPlan>(*std::move(planned));
    return plan;
  }

  AttentionGroup group_;  // Without a plan where shapes decide it.
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const ShardPlan>>
      plans_;
};

thread_local CpSdpa* current_cp_sdpa = nullptr;
thread_local bool tiling_kernels = false;

class CpSdpaScope final : public Scope {
 public:
  explicit CpSdpaScope(CpSdpa sdpa)
      : sdpa_(std::move(sdpa)),
        outer_(std::exchange(current_cp_sdpa, &sdpa_)) {}
  ~CpSdpaScope() override { current_cp_sdpa = outer_; }

 private:
  CpSdpa sdpa_;
  CpSdpa* const outer_;
};

class TilingKernelsScope final : public Scope {
 public:
  TilingKernelsScope() : outer_(std::exchange(tiling_kernels, true)) {}
  ~TilingKernelsScope() override { tiling_kernels = outer_; }

 private:
  const bool outer_;
};

// Each kv head as often as query heads read it.
at::Tensor Repeated(const at::Tensor& heads, int64_t times) {
  return times == 1 ? heads : heads.repeat_interleave(times, 1);
}

}  // namespace

absl::StatusOr<RotateMethod> ParseRotateMethod(absl::string_view name) {
  if (name == "allgather") return RotateMethod::kAllGather;
  if (name == "alltoall") return RotateMethod::kAllToAll;
  return InvalidArgument(kBadOption,
                         absl::StrCat("rotate method is \"", name,
                                      "\"; must be allgather or alltoall"));
}

at::Tensor ScaledDotProductAttention(const at::Tensor& q, const at::Tensor& k,
                                     const at::Tensor& v, bool is_causal,
                                     std::optional<double> scale) {
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || k.size(1) == 0 ||
      q.size(1) % k.size(1) != 0) {
    throw StatusException(InvalidArgument(
        kShapeMismatch,
        "q, k and v must be [B, heads, S, D], with as many query heads as a "
        "multiple of the kv heads"));
  }
  const double factor =
      scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))));
  if (current_cp_sdpa != nullptr) {
    return current_cp_sdpa->Attend(q, k, v, is_causal, factor);
  }
  const int64_t times = q.size(1) / k.size(1);
  // LibTorch's own choice on a GPU tiles too.
  if (tiling_kernels && q.is_cpu() && q.size(3) == v.size(3)) {
    return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
        q, Repeated(k, times), Repeated(v, times), 0.0, is_causal, {}, factor));
  }
  return at::scaled_dot_product_attention(
      q, Repeated(k, times), Repeated(v, times), {}, 0.0, is_causal, factor);
}

std::unique_ptr<Scope> EnterCpSdpa(std::shared_ptr<Communicator> group,
                                   RotateMethod method) {
  return std::make_unique<CpSdpaScope>(CpSdpa(std::move(group), method));
}

std::unique_ptr<Scope> EnterPackedSdpa(AttentionGroup group) {
  return std::make_unique<CpSdpaScope>(CpSdpa(std::move(group)));
}

bool InCpSdpa() { return current_cp_sdpa != nullptr; }

std::unique_ptr<Scope> EnterTilingKernels() {
  return std::make_unique<TilingKernelsScope>();
}

}  // namespace cpfeed
