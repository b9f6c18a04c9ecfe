// How attention is done on a GPU, on CPU tensors: the same packing, merging and
// adding up, with the kernel that is composed of elementary operations.

#include "core/attention/varlen_attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/attention/attention_mask.h"
#include "core/attention/block_attention.h"
#include "core/attention/block_attention_grad.h"
#include "core/attention/row_runs.h"
#include "core/attention/tile_plan.h"
#include "core/attention/varlen_kernel.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kCpSize = 3;
constexpr int64_t kHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadDim = 5;
constexpr int64_t kValueDim = 3;
constexpr double kScale = 0.7;

at::Tensor Random(int64_t rows, int64_t heads, int64_t dim,
                  std::mt19937& random) {
  at::Tensor tensor = at::empty({rows, heads, dim}, at::kDouble);
  std::normal_distribution<double> normal;
  double* const values = tensor.mutable_data_ptr<double>();
  for (int64_t i = 0; i < tensor.numel(); ++i) values[i] = normal(random);
  return tensor;
}

void ExpectNear(const std::string& what, const at::Tensor& a,
                const at::Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  const double* const x = a.const_data_ptr<double>();
  const double* const y = b.const_data_ptr<double>();
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (x[i] == y[i]) continue;  // Infinities too.
    ASSERT_NEAR(x[i], y[i], 1e-12) << what << " at " << i;
  }
}

// The blocks of all ranks in turn, for the queries of rank 1.
void Compare(const ShardPlan& plan, const AttentionMask& mask,
             std::mt19937& random) {
  const std::vector<RowRun> queries = RankRuns(plan, 1);
  const int64_t rows = plan.ranks[1].num_tokens;
  const at::Tensor q = Random(rows, kHeads, kHeadDim, random);
  BlockAttention expected(q, kValueDim, kScale);
  const at::Tensor out = at::zeros({rows, kHeads, kValueDim}, at::kDouble);
  const at::Tensor lse = at::full({rows, kHeads}, -kInfinity, at::kDouble);
  std::vector<TilePlan> tiles;
  std::vector<at::Tensor> ks, vs;
  for (int rank = 0; rank < kCpSize; ++rank) {
    const int64_t keys = plan.ranks[rank].num_tokens;
    tiles.push_back(PlanTiles(queries, RankRuns(plan, rank), mask));
    ks.push_back(Random(keys, kKvHeads, kHeadDim, random));
    vs.push_back(Random(keys, kKvHeads, kValueDim, random));
    expected.Add(tiles.back(), ks.back(), vs.back());
    AddVarlen(tiles.back(), q, ks.back(), vs.back(), kScale, out, lse);
  }
  ExpectNear("out", out, expected.Output());
  ExpectNear("lse", lse, expected.lse());

  const at::Tensor dout = Random(rows, kHeads, kValueDim, random);
  BlockAttentionGrad grad(q, expected.Output(), expected.lse(), dout, kScale);
  const at::Tensor dq = at::zeros_like(q);
  for (int rank = 0; rank < kCpSize; ++rank) {
    const int64_t keys = plan.ranks[rank].num_tokens;
    const KvGrad theirs = KvGrad::Zeros(keys, ks[rank], vs[rank]);
    grad.Add(tiles[rank], ks[rank], vs[rank], theirs);
    const KvGrad ours = KvGrad::Zeros(keys, ks[rank], vs[rank]);
    AddVarlenGrad(tiles[rank], {q, out, lse, dout, kScale}, ks[rank], vs[rank],
                  dq, ours.dk, ours.dv);
    ExpectNear("dk", ours.dk, theirs.dk);
    ExpectNear("dv", ours.dv, theirs.dv);
  }
  ExpectNear("dq", dq, grad.dq());
}

TEST(VarlenAttentionTest, GivesWhatTheCpuKernelGives) {
  std::mt19937 random(17);
  for (const LayoutSpec& spec : TestSpecs()) {
    for (const AttentionMask& mask :
         {AttentionMask::Causal(), AttentionMask::Full(),
          AttentionMask::Window(5, 0), AttentionMask::Window(3, 9)}) {
      SCOPED_TRACE(MaskName(mask));
      const auto plan =
          PlanShards(PackFor(spec, kCpSize, random), spec, kCpSize);
      ASSERT_THAT(plan, IsOk());
      Compare(*plan, mask, random);
      if (HasFatalFailure()) return;
    }
  }
}

struct Choice {
  std::string name;
  bool on_gpu;
  at::ScalarType dtype;
  int64_t head_dim;
  int64_t value_dim;
  Tile::Kind kind;
  bool deterministic;
  VarlenKernel kernel;
};

class ChooseVarlenKernelTest : public ::testing::TestWithParam<Choice> {};

TEST_P(ChooseVarlenKernelTest, TakesTheFastestThatCan) {
  const Choice& choice = GetParam();
  EXPECT_EQ(
      ChooseVarlenKernel(choice.on_gpu, choice.dtype, choice.head_dim,
                         choice.value_dim, choice.kind, choice.deterministic),
      choice.kernel);
}

constexpr Tile::Kind kFull = Tile::Kind::kFull;
constexpr Tile::Kind kCausal = Tile::Kind::kCausal;
constexpr Tile::Kind kBand = Tile::Kind::kBand;

INSTANTIATE_TEST_SUITE_P(All, ChooseVarlenKernelTest,
                         ::testing::ValuesIn(std::vector<Choice>{
                             {"Cpu", false, at::kBFloat16, 64, 64, kFull, false,
                              VarlenKernel::kComposed},
                             {"Bfloat16", true, at::kBFloat16, 64, 64, kCausal,
                              false, VarlenKernel::kFlash},
                             {"Float16OtherValueDim", true, at::kHalf, 192, 128,
                              kFull, true, VarlenKernel::kFlash},
                             {"Wide", true, at::kBFloat16, 64, 257, kFull,
                              false, VarlenKernel::kComposed},
                             {"Band", true, at::kBFloat16, 64, 64, kBand, false,
                              VarlenKernel::kComposed},
                             {"Float32", true, at::kFloat, 64, 64, kCausal,
                              false, VarlenKernel::kEfficient},
                             {"Float32Deterministic", true, at::kFloat, 64, 64,
                              kCausal, true, VarlenKernel::kComposed},
                             {"Float64", true, at::kDouble, 64, 64, kFull,
                              false, VarlenKernel::kComposed},
                         }),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed::testing
