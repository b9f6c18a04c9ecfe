// Loaders and ranks on threads of their own, on a session with little memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/session/session.h"
#include "cpfeed/v1/session.pb.h"
#include "server/held_step.h"
#include "server/session_host.h"
#include "server/session_spec.h"
#include "server/wakeup.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;

constexpr int kRanks = 2;
constexpr int64_t kBatches = 200;  // Of each loader.
constexpr int64_t kBatchBytes = 1000;
constexpr absl::Duration kLong = absl::Seconds(60);

SessionSpec SpecOfTwoLoaders() {
  v1::CreateSessionRequest request;
  request.set_session_id("threads");
  v1::Session& session = *request.mutable_session();
  session.mutable_topology()->set_cp_size(kRanks);
  session.mutable_topology()->set_consumers_per_cp_rank(2);
  session.add_producers("a");
  session.add_producers("b");
  v1::SessionLimits& limits = *session.mutable_limits();
  limits.set_max_batch_bytes(kBatchBytes);
  limits.set_memory_budget_bytes(3 * kBatchBytes * kCostPerPayloadByte);
  absl::StatusOr<SessionSpec> spec = MakeSessionSpec(request, {});
  EXPECT_THAT(spec, IsOk());
  return *std::move(spec);
}

ConvertedBatch BatchOf(const std::string& producer, int64_t sequence) {
  ConvertedBatch batch{.batch_id = absl::StrCat(producer, sequence)};
  batch.ranks.resize(kRanks);
  return batch;
}

// Sends all batches as credit comes, then finishes.
void Load(SessionHost& host, const std::string& id) {
  Wakeup wakeup;
  const auto opened = host.OpenProducer(id, 1, &wakeup);
  ASSERT_THAT(opened, IsOk());
  const int64_t connection = opened->connection;
  int64_t credit = opened->credit_bytes;
  for (int64_t sequence = 0; sequence < kBatches; ++sequence) {
    while (credit < kBatchBytes) {
      const uint64_t epoch = wakeup.Epoch();
      const auto grant = host.TakeGrant(connection);
      ASSERT_THAT(grant, IsOk());
      credit += *grant;
      if (credit < kBatchBytes) wakeup.WaitPast(epoch, kLong);
    }
    credit -= kBatchBytes;
    const int64_t cost = kBatchBytes * kCostPerPayloadByte;
    ASSERT_THAT(host.Admit(connection, sequence, sequence, kBatchBytes, cost),
                IsOk());
    ASSERT_THAT(
        host.Complete(connection, sequence, cost, BatchOf(id, sequence)),
        IsOk());
  }
  ASSERT_THAT(host.Finish(connection, kBatches), IsOk());
  host.CloseProducer(connection);
}

// Reads to the end; returns the batches in order.
std::vector<std::string> Read(SessionHost& host, int cp_rank, int consumer) {
  std::vector<std::string> batches;
  Wakeup wakeup;
  const auto attached = host.Attach(cp_rank, consumer, 1, 0, {}, &wakeup);
  EXPECT_THAT(attached, IsOk());
  while (true) {
    const uint64_t epoch = wakeup.Epoch();
    const auto next = host.Next(attached->connection);
    EXPECT_THAT(next, IsOk());
    if (!next.ok() || next->kind == Delivery::Kind::kEnd) break;
    if (next->kind == Delivery::Kind::kNothing) {
      wakeup.WaitPast(epoch, kLong);
      continue;
    }
    const auto held = host.FindStep(next->step);
    EXPECT_NE(held, nullptr);
    EXPECT_THAT(host.TrySend(attached->connection, 1), IsOk());
    batches.push_back(held->batch.batch_id);
    EXPECT_THAT(host.Ack(attached->connection, next->step), IsOk());
  }
  host.CloseConsumer(attached->connection);
  return batches;
}

TEST(SessionHostThreadsTest, EveryConsumerGetsEveryStepInOrder) {
  SessionHost host(SpecOfTwoLoaders());
  std::vector<std::string> expected;
  for (int64_t sequence = 0; sequence < kBatches; ++sequence) {
    for (const char* id : {"a", "b"}) {
      expected.push_back(absl::StrCat(id, sequence));
    }
  }
  std::vector<std::thread> threads;
  for (const char* id : {"a", "b"}) {
    threads.emplace_back([&host, id] { Load(host, id); });
  }
  for (int reader = 0; reader < 2 * kRanks; ++reader) {
    threads.emplace_back([&host, &expected, reader] {
      EXPECT_EQ(Read(host, reader / 2, reader % 2), expected);
    });
  }
  // People look meanwhile.
  while (host.ToProto().state() != v1::SESSION_STATE_FINISHED) {
    ASSERT_LE(host.ToProto().memory_bytes(),
              3 * kBatchBytes * kCostPerPayloadByte);
    if (HasFailure()) {
      host.Fail(absl::CancelledError("a thread failed"));
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(host.AllAcked());
}

}  // namespace
}  // namespace cpfeed
