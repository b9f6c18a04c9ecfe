#include "client/worker/model/shard_step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/worker/model/decoder.h"
#include "core/attention/make_kv_exchange.h"
#include "core/comm/loopback_communicator.h"
#include "tests/client/worker/job_steps.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

constexpr int64_t kVocabulary = 11;

// Gradients of two steps add up: the first is not summed over ranks again.
TEST(TrainOnShardTest, AddsToTheGradientsThatAreThere) {
  const auto shards = ShardsOf(
      CountingBatchOf({{{12, 12}, {12, 12}}}, kVocabulary, 0), {}, 2, 1);
  auto ends = MakeLoopbackGroup(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const std::shared_ptr<Communicator> group = std::move(ends[rank]);
      auto made = MakeKvExchange("planned");
      ASSERT_THAT(made, IsOk());
      const std::shared_ptr<const KvExchange> exchange = *std::move(made);
      Decoder model({.vocab_size = kVocabulary,
                     .num_layers = 1,
                     .width = 16,
                     .mlp_width = 16,
                     .num_heads = 2,
                     .num_kv_heads = 1,
                     .head_dim = 8,
                     .delta_key_heads = 1,
                     .delta_value_heads = 1,
                     .delta_head_dim = 8,
                     .conv_width = 2},
                    1);
      AttachCpHooks(model, group);
      ASSERT_THAT(TrainOnShard(model, shards[rank], exchange, group), IsOk());
      std::vector<at::Tensor> once;
      for (const at::Tensor& parameter : model.parameters()) {
        once.push_back(parameter.grad().clone());
      }
      ASSERT_THAT(TrainOnShard(model, shards[rank], exchange, group), IsOk());
      const std::vector<at::Tensor> parameters = model.parameters();
      for (size_t i = 0; i < once.size(); ++i) {
        EXPECT_TRUE(at::equal(parameters[i].grad(), once[i] + once[i])) << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cpfeed::testing
