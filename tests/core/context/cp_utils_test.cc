#include "core/context/cp_utils.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/comm/loopback_communicator.h"
#include "core/context/sdpa.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs `rank_main` on a thread for each rank.
void OnRanks(
    int size,
    const std::function<void(std::shared_ptr<Communicator>)>& rank_main) {
  auto group = MakeLoopbackGroup(size);
  std::vector<std::thread> threads;
  for (auto& end : group) {
    threads.emplace_back([&rank_main, own = std::move(end)]() mutable {
      rank_main(std::move(own));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

at::Tensor Random(std::vector<int64_t> shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  at::Tensor tensor = at::zeros(shape, at::kDouble);
  auto* const data = tensor.mutable_data_ptr<double>();
  for (int64_t i = 0; i < tensor.numel(); ++i) data[i] = normal(random);
  return tensor;
}

at::Tensor HeadTail(const at::Tensor& whole, int64_t dim, int rank,
                    int cp_size) {
  const int64_t c = whole.size(dim) / (2 * cp_size);
  return at::cat({whole.narrow(dim, rank * c, c),
                  whole.narrow(dim, (2 * cp_size - 1 - rank) * c, c)},
                 dim);
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  return at::max((a - b).abs()).item<double>();
}

TEST(BuildPositionIdsTest, AddsOneRowWhereThereAreNone) {
  TensorBatch batch = {{"input_ids", at::zeros({3, 4}, at::kLong)}};
  ASSERT_THAT(BuildPositionIds(batch), IsOk());
  EXPECT_TRUE(
      at::equal(batch["position_ids"], at::arange(4, at::kLong).unsqueeze(0)));
  const at::Tensor given = at::zeros({3, 4}, at::kLong);
  batch["position_ids"] = given;
  ASSERT_THAT(BuildPositionIds(batch), IsOk());
  EXPECT_TRUE(batch["position_ids"].is_same(given));
  TensorBatch empty;
  EXPECT_THAT(
      BuildPositionIds(empty),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no input_ids")));
}

TEST(ContextParallelContextTest, ShardsInPlaceAndRestores) {
  auto group = MakeLoopbackGroup(2);
  at::Tensor ids = at::arange(8, at::kLong).reshape({1, 8});
  at::Tensor positions = ids.clone();
  const at::Tensor alias = ids;  // Another handle.
  const auto factory = ContextParallelContext(std::move(group[1]),
                                              {.buffers = {&ids, &positions},
                                               .sequence_dims = {1, 1},
                                               .no_restore = {&ids}});
  ASSERT_THAT(factory, IsOk());
  EXPECT_EQ(ids.size(1), 8);  // Nothing happens before it is entered.
  {
    const auto scope = (*factory)();
    ASSERT_THAT(scope, IsOk());
    EXPECT_TRUE(InCpSdpa());
    EXPECT_TRUE(at::equal(alias, at::arange(2, 6, at::kLong).reshape({1, 4})));
    EXPECT_EQ(positions.size(1), 4);
  }
  EXPECT_FALSE(InCpSdpa());
  EXPECT_EQ(alias.size(1), 4);
  EXPECT_TRUE(at::equal(positions, at::arange(8, at::kLong).reshape({1, 8})));
  EXPECT_THAT((*factory)(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("entered before")));
}

// Labels that are the ids, as causal models have them.
TEST(ContextParallelContextTest, OneTensorUnderTwoNamesIsShardedOnce) {
  auto group = MakeLoopbackGroup(2);
  at::Tensor ids = at::arange(8, at::kLong).reshape({1, 8});
  at::Tensor labels = ids;
  const auto factory = ContextParallelContext(
      std::move(group[0]),
      {.buffers = {&ids, &labels}, .sequence_dims = {1, 1}});
  ASSERT_THAT(factory, IsOk());
  {
    const auto scope = (*factory)();
    ASSERT_THAT(scope, IsOk());
    const at::Tensor shard =
        at::cat({at::arange(2, at::kLong), at::arange(6, 8, at::kLong)})
            .unsqueeze(0);
    EXPECT_TRUE(at::equal(ids, shard));
    EXPECT_TRUE(at::equal(labels, shard));
  }
  EXPECT_TRUE(at::equal(ids, at::arange(8, at::kLong).reshape({1, 8})));
  EXPECT_TRUE(at::equal(labels, at::arange(8, at::kLong).reshape({1, 8})));
}

// A tensor of its own in the same memory: neither may spoil the other.
TEST(ContextParallelContextTest, TensorsThatShareMemoryAreReplaced) {
  auto group = MakeLoopbackGroup(2);
  const at::Tensor whole = at::arange(8, at::kLong).reshape({1, 8});
  at::Tensor ids = whole;
  at::Tensor column = ids.view({8, 1});
  const auto factory = ContextParallelContext(
      std::move(group[1]),
      {.buffers = {&ids, &column}, .sequence_dims = {1, 0}});
  ASSERT_THAT(factory, IsOk());
  {
    const auto scope = (*factory)();
    ASSERT_THAT(scope, IsOk());
    EXPECT_TRUE(at::equal(ids, at::arange(2, 6, at::kLong).unsqueeze(0)));
    EXPECT_TRUE(at::equal(column, at::arange(2, 6, at::kLong).unsqueeze(1)));
    EXPECT_EQ(whole.size(1), 8);
  }
  EXPECT_TRUE(ids.is_same(whole));
  EXPECT_EQ(column.size(0), 8);
}

// Sharded along two axes it would be neither.
TEST(ContextParallelContextTest, OneTensorHasOneSequenceDim) {
  auto group = MakeLoopbackGroup(2);
  at::Tensor square = at::zeros({4, 4}, at::kLong);
  at::Tensor alias = square;
  const auto factory = ContextParallelContext(
      std::move(group[0]),
      {.buffers = {&square, &alias}, .sequence_dims = {0, 1}});
  ASSERT_THAT(factory, IsOk());
  EXPECT_THAT((*factory)(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("buffer 1 is buffer 0, whose sequence dim is "
                                 "0; its own is 1")));
  EXPECT_EQ(square.size(0), 4);
}

TEST(ContextParallelContextTest, GradientsFlowIntoTheWholeBuffer) {
  auto group = MakeLoopbackGroup(2);
  const at::Tensor whole = Random({1, 8, 3}, 1).set_requires_grad(true);
  at::Tensor embeddings = whole;
  const auto factory = ContextParallelContext(
      std::move(group[0]), {.buffers = {&embeddings}, .sequence_dims = {1}});
  ASSERT_THAT(factory, IsOk());
  {
    const auto scope = (*factory)();
    ASSERT_THAT(scope, IsOk());
    EXPECT_EQ(embeddings.size(1), 4);
    EXPECT_EQ(whole.size(1), 8);
    torch::autograd::backward({embeddings.sum()}, {});
  }
  EXPECT_TRUE(embeddings.is_same(whole));
  // Rank 0 of 2 has the positions 0, 1, 6 and 7.
  EXPECT_EQ(whole.grad().narrow(1, 0, 2).sum().item<double>(), 6);
  EXPECT_EQ(whole.grad().narrow(1, 2, 4).abs().sum().item<double>(), 0);
}

TEST(ContextParallelContextTest, RestoresWhenTheBodyThrows) {
  auto group = MakeLoopbackGroup(2);
  at::Tensor ids = at::arange(4, at::kLong).reshape({1, 4});
  const auto factory = ContextParallelContext(
      std::move(group[0]), {.buffers = {&ids}, .sequence_dims = {1}});
  ASSERT_THAT(factory, IsOk());
  try {
    const auto scope = (*factory)();
    ASSERT_THAT(scope, IsOk());
    throw std::runtime_error("step failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(ids.size(1), 4);
  EXPECT_FALSE(InCpSdpa());
}

TEST(ContextParallelContextTest, WrongUseIsNamed) {
  auto group = MakeLoopbackGroup(2);
  const std::shared_ptr<Communicator> end = std::move(group[0]);
  at::Tensor a = at::zeros({1, 6}, at::kLong);
  at::Tensor b = a.clone();
  EXPECT_THAT(
      ContextParallelContext(end, {.rotate_method = "addtoall"}),
      AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                     HasSubstr("\"addtoall\"; must be allgather or alltoall")),
            HasReason(kBadOption)));
  EXPECT_THAT(ContextParallelContext(end, {.buffers = {&a}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("1 buffers have 0 sequence dims")));
  EXPECT_THAT(
      ContextParallelContext(
          end, {.buffers = {&a}, .sequence_dims = {1}, .no_restore = {&b}}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("no_restore 0 is none of the buffers")));
  const auto factory =
      ContextParallelContext(end, {.buffers = {&a}, .sequence_dims = {1}});
  ASSERT_THAT(factory, IsOk());
  EXPECT_THAT((*factory)(),
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("6 positions; must be a multiple of "
                                       "2 * cp_size = 4")),
                    HasReason(kNotDivisible)));
  EXPECT_EQ(a.size(1), 6);
  const auto none = ContextParallelContext(end, {});
  ASSERT_THAT(none, IsOk());
  EXPECT_THAT((*none)(), IsOk());
}

// Notes when it is entered and left.
class Note final : public Scope {
 public:
  explicit Note(std::vector<std::string>& log) : log_(log) {
    log_.push_back("enter cp, loss parallel " +
                   std::to_string(InLossParallel()));
  }
  ~Note() override {
    log_.push_back("leave cp, loss parallel " +
                   std::to_string(InLossParallel()));
  }

 private:
  std::vector<std::string>& log_;
};

TEST(TrainContextTest, NestsAndLeavesInReverse) {
  std::vector<std::string> log;
  const auto factory = TrainContext(
      true, false, ScopeFactory([&] { return std::make_unique<Note>(log); }));
  ASSERT_THAT(factory, IsOk());
  try {
    const auto scope = (*factory)();
    ASSERT_THAT(scope, IsOk());
    EXPECT_TRUE(InLossParallel());
    // Other threads are not in it.
    std::thread([] { EXPECT_FALSE(InLossParallel()); }).join();
    throw std::runtime_error("step failed");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(InLossParallel());
  EXPECT_THAT(log, ElementsAre("enter cp, loss parallel 1",
                               "leave cp, loss parallel 1"));
  EXPECT_THAT((*factory)(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("entered before")));
}

TEST(TrainContextTest, WhatFailsToEnterLeavesNothing) {
  const auto factory = TrainContext(
      true, false, ScopeFactory([]() -> absl::StatusOr<std::unique_ptr<Scope>> {
        return absl::UnavailableError("no group");
      }));
  ASSERT_THAT(factory, IsOk());
  EXPECT_THAT((*factory)(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no group")));
  EXPECT_FALSE(InLossParallel());
}

TEST(TrainContextTest, CompiledAutogradIsRefusedByName) {
  EXPECT_THAT(TrainContext(false, true),
              AllOf(StatusIs(absl::StatusCode::kUnimplemented,
                             HasSubstr("compiled autograd")),
                    HasReason(kNotSupported)));
}

// Attention of a decoder layer, as people write it.
class SelfAttention : public HookableModule {
 public:
  bool fail = false;
  CallArguments seen;

 protected:
  at::Tensor Forward(const at::Tensor& qkv,
                     const CallArguments& arguments) override {
    seen = arguments;
    if (fail) throw std::runtime_error("attention failed");
    return ScaledDotProductAttention(qkv[0], qkv[1], qkv[2],
                                     arguments.is_causal.value_or(false));
  }
};

class LinearAttention : public LinearAttentionModule {
 protected:
  at::Tensor Forward(const at::Tensor& x, const CallArguments&) override {
    return x;
  }
};

class Layer : public HookableModule {
 public:
  explicit Layer(std::string type) : type_(std::move(type)) {
    self_attn = register_module("self_attn", std::make_shared<SelfAttention>());
    linear_attn =
        register_module("linear_attn", std::make_shared<LinearAttention>());
  }
  std::string layer_type() const override { return type_; }

  std::shared_ptr<SelfAttention> self_attn;
  std::shared_ptr<LinearAttention> linear_attn;

 protected:
  at::Tensor Forward(const at::Tensor& x,
                     const CallArguments& arguments) override {
    return (*self_attn)(x, arguments);
  }

 private:
  const std::string type_;
};

TEST(ContextParallelHooksTest, DropTheMaskAndSetIsCausal) {
  Layer layer("full_attention");
  std::vector<HookHandle> handles = AttachContextParallelHooks(layer);
  EXPECT_EQ(handles.size(), 1);
  AttachContextParallelHooks(layer);  // Changes nothing.
  const at::Tensor qkv = Random({3, 1, 2, 4, 4}, 1);
  // A null mask is a mask.
  layer(qkv, {.tensors = {{"attention_mask", std::nullopt}}});
  EXPECT_EQ(layer.self_attn->seen.is_causal, true);
  EXPECT_FALSE(layer.self_attn->seen.tensors.contains("attention_mask"));
  layer(qkv, {});
  EXPECT_FALSE(layer.self_attn->seen.is_causal.has_value());
  handles[0].Remove();
  layer(qkv, {.tensors = {{"attention_mask", std::nullopt}}});
  EXPECT_FALSE(layer.self_attn->seen.is_causal.has_value());
}

// Every rank's shard of the whole attention, with the bytes that brought it.
TEST(CpSdpaHooksTest, AttentionGoesOverTheRanks) {
  for (const RotateMethod method :
       {RotateMethod::kAllGather, RotateMethod::kAllToAll}) {
    for (const int cp_size : {1, 2, 3}) {
      const at::Tensor qkv = Random({3, 2, 4, 12, 8}, 2);
      const at::Tensor whole =
          ScaledDotProductAttention(qkv[0], qkv[1], qkv[2], true);
      OnRanks(cp_size, [&](std::shared_ptr<Communicator> group) {
        Layer layer("full_attention");
        AttachCpSdpaHooks(layer, group, method);
        AttachCpSdpaHooks(layer, group, method);
        const int rank = group->rank();
        const at::Tensor shard = HeadTail(qkv, 3, rank, cp_size);
        const at::Tensor out = layer(shard, {.is_causal = true});
        EXPECT_LT(Difference(out, HeadTail(whole, 2, rank, cp_size)), 1e-12);
        EXPECT_FALSE(InCpSdpa());
        // cp - 1 remote blocks of k and v came in.
        EXPECT_EQ(group->bytes().received,
                  (cp_size - 1) * 2 * shard[0].numel() *
                      static_cast<int64_t>(sizeof(double)));
      });
    }
  }
}

TEST(CpSdpaHooksTest, ARemoteKeyChangesTheLocalOutput) {
  const at::Tensor qkv = Random({3, 1, 2, 8, 4}, 3);
  const at::Tensor changed = qkv.clone();
  // Position 2, on rank 1 of 2, as a key.
  changed[1].narrow(2, 2, 1).add_(1);
  OnRanks(2, [&](std::shared_ptr<Communicator> group) {
    Layer layer("full_attention");
    AttachCpSdpaHooks(layer, group);
    const int rank = group->rank();
    const at::Tensor before =
        layer(HeadTail(qkv, 3, rank, 2), {.is_causal = true});
    const at::Tensor after =
        layer(HeadTail(changed, 3, rank, 2), {.is_causal = true});
    if (rank == 0) {
      // Positions 0 and 1 do not see it, 6 and 7 do.
      EXPECT_EQ(Difference(before.narrow(2, 0, 2), after.narrow(2, 0, 2)), 0);
      EXPECT_GT(Difference(before.narrow(2, 2, 2), after.narrow(2, 2, 2)),
                1e-6);
    }
  });
}

TEST(CpSdpaHooksTest, LeavesNothingBehindWhenTheModuleThrows) {
  auto group = MakeLoopbackGroup(1);
  Layer layer("full_attention");
  AttachCpSdpaHooks(layer, std::move(group[0]));
  layer.self_attn->fail = true;
  EXPECT_THROW(layer(Random({3, 1, 1, 4, 4}, 4)), std::runtime_error);
  EXPECT_FALSE(InCpSdpa());
}

TEST(LinearAttnPositionHooksTest, TheChildIsHandedThePositions) {
  Layer layer("linear_attention");
  AttachLinearAttnPositionHooks(layer);
  AttachLinearAttnPositionHooks(layer);
  const at::Tensor positions = at::arange(4, at::kLong);
  layer(Random({3, 1, 1, 4, 4}, 5), {.tensors = {{"position_ids", positions}}});
  const auto taken = layer.linear_attn->TakePositions();
  ASSERT_TRUE(taken.has_value());
  EXPECT_TRUE(taken->is_same(positions));
  EXPECT_FALSE(layer.linear_attn->TakePositions().has_value());
  layer(Random({3, 1, 1, 4, 4}, 5), {});
  EXPECT_FALSE(layer.linear_attn->TakePositions().has_value());
}

TEST(LinearAttnPositionHooksTest, ModulesWithoutALayerTypeAreLeftAlone) {
  Layer other("");
  EXPECT_EQ(AttachLinearAttnPositionHooks(other).size(), 0);
}

TEST(MakeCpBatchForTeTest, ShardsForOneRank) {
  const TensorBatch batch = {
      {"input_ids", at::arange(8, at::kLong).reshape({1, 8})},
      {"labels", at::arange(8, at::kLong).reshape({1, 8})},
      {"position_ids", at::arange(8, at::kLong).reshape({1, 8})},
      {"seq_lens", at::zeros({1, 1}, at::kLong) + 8},
      {"seq_lens_padded", at::zeros({1, 1}, at::kLong) + 8}};
  const auto shard =
      MakeCpBatchForTe(batch, ParityOptions(), {.cp_size = 2, .cp_rank = 0});
  ASSERT_THAT(shard, IsOk());
  EXPECT_TRUE(at::equal(
      shard->tensors.at("input_ids"),
      at::cat({at::arange(2, at::kLong), at::arange(6, 8, at::kLong)})));
  EXPECT_EQ(shard->values.at("qkv_format"), "\"thd\"");
  EXPECT_EQ(shard->values.at("cp_size"), "2");
  ASSERT_TRUE(shard->local_indices.has_value());
  EXPECT_EQ(shard->local_indices->size(0), 4);
  // With one rank it is the converted batch, of which the other function gives
  // the same part.
  const auto whole = MakeCpBatchForTe(batch, ParityOptions(), {});
  ASSERT_THAT(whole, IsOk());
  const auto part =
      ShardThdChunkForTe(*whole, {}, {.cp_size = 2, .cp_rank = 0});
  ASSERT_THAT(part, IsOk());
  EXPECT_TRUE(
      at::equal(part->tensors.at("input_ids"), shard->tensors.at("input_ids")));
  EXPECT_THAT(MakeCpBatchForTe(batch, ParityOptions(), {}, "bshd"),
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("must be thd")),
                    HasReason("ValueError")));
}

}  // namespace
}  // namespace cpfeed
