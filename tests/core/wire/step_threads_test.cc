// Streams of several consumers that share one step, as the server's do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/shard/shard.h"
#include "core/tensor/buffer.h"
#include "core/wire/frame.h"
#include "core/wire/shard_codec.h"
#include "cpfeed/v1/shard.pb.h"
#include "tests/core/wire/encoded_steps.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::EncodedTwoChunks;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StringOf;
using ::cpfeed::testing::TwoChunks;

// What a consumer reads of the step that it asked for.
void SendAndRead(const EncodedStep& step, const std::vector<std::string>& names,
                 const std::vector<StepShard>& expected) {
  const EncodedStep selected = SelectTensors(step, names);
  v1::StreamShardsResponse message;
  *message.mutable_step() = selected.header;
  v1::StreamShardsResponse received;
  const auto payload =
      DecodeMessage(EncodeMessage(message, selected.payload), received);
  ASSERT_THAT(payload, IsOk());
  const auto decoded = DecodeStep(received.step(), 2, *payload);
  ASSERT_THAT(decoded, IsOk());
  for (size_t c = 0; c < decoded->chunks.size(); ++c) {
    ASSERT_EQ(StringOf(decoded->chunks[c].tensors[0].tensor.bytes),
              StringOf(expected[1].chunks[c].tensors[0].tensor.bytes));
  }
}

TEST(StepThreadsTest, ConsumersShareAStepAndTheLastOneFreesIt) {
  const std::vector<StepShard> expected = TwoChunks();
  auto step = std::make_shared<const EncodedStep>(EncodedTwoChunks());
  const std::weak_ptr<const EncodedStep> alive = step;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([step, &expected, i]() mutable {
      for (int round = 0; round < 50; ++round) {
        SendAndRead(*step,
                    i % 2 == 0 ? std::vector<std::string>()
                               : std::vector<std::string>{"input_ids", "index"},
                    expected);
      }
      step.reset();
    });
  }
  step.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace cpfeed
