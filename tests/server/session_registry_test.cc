// Leases, standstill and updates, with a clock that the test turns.

#include "server/session_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "core/base/error.h"
#include "core/session/session_config.h"
#include "server/wakeup.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kName[] = "sessions/train";
constexpr int64_t kBatchBytes = 1000;

class SessionRegistryTest : public ::testing::Test {
 protected:
  SessionRegistryTest()
      : registry_({.memory_budget_bytes = 100 * kBatchBytes,
                   .clock = [this] { return now_; }}) {}

  v1::CreateSessionRequest Request() const {
    v1::CreateSessionRequest request;
    request.set_session_id("train");
    v1::Session& session = *request.mutable_session();
    session.mutable_topology()->set_cp_size(2);
    session.add_producers("a");
    session.add_producers("b");
    session.mutable_limits()->set_max_batch_bytes(kBatchBytes);
    session.mutable_limits()->set_memory_budget_bytes(20 * kBatchBytes);
    session.mutable_lease_duration()->set_seconds(30);
    session.mutable_delivery()->mutable_stall_timeout()->set_seconds(10);
    return request;
  }

  std::shared_ptr<SessionHost> Create() {
    auto host = registry_.Create(Request(), Caller());
    EXPECT_THAT(host, IsOk());
    return *std::move(host);
  }

  absl::Status Update(std::initializer_list<std::string> paths,
                      const v1::Session& values) {
    v1::UpdateSessionRequest request;
    *request.mutable_session() = values;
    request.mutable_session()->set_name(kName);
    for (const std::string& path : paths) {
      request.mutable_update_mask()->add_paths(path);
    }
    return registry_.Update(request, Caller()).status();
  }

  void PutOne(SessionHost& host, const std::string& producer) {
    const auto opened = host.OpenProducer(producer, 1, &wakeup_);
    ASSERT_THAT(opened, IsOk());
    ASSERT_THAT(host.Admit(opened->connection, opened->next_sequence, 7, 1, 4),
                IsOk());
    ConvertedBatch batch;
    batch.ranks.resize(2);
    ASSERT_THAT(host.Complete(opened->connection, opened->next_sequence, 4,
                              std::move(batch)),
                IsOk());
    host.CloseProducer(opened->connection);
  }

  absl::Duration now_ = absl::Hours(1);
  Wakeup wakeup_;
  SessionRegistry registry_;
};

TEST_F(SessionRegistryTest, SessionWhoseLeaseRunsOutIsDeletedAndFreesMemory) {
  const auto host = Create();
  PutOne(*host, "a");
  now_ += absl::Seconds(29);
  EXPECT_THAT(registry_.Sweep(), IsEmpty());
  EXPECT_EQ(host->Renew(), absl::Seconds(30));
  now_ += absl::Seconds(29);
  EXPECT_THAT(registry_.Sweep(), IsEmpty());
  now_ += absl::Seconds(1);
  EXPECT_THAT(registry_.Sweep(), ElementsAre(kName));
  EXPECT_THAT(registry_.Find(kName, Caller()), HasReason(kSessionNotFound));
  EXPECT_THAT(registry_.All(), IsEmpty());
  EXPECT_EQ(registry_.published_steps(), 1);
  EXPECT_EQ(host->FindStep(0), nullptr);  // Its bytes are gone, too.
  EXPECT_THAT(host->OpenProducer("a", 2, &wakeup_), HasReason(kSessionExpired));
  EXPECT_THAT(registry_.Sweep(), IsEmpty());
}

TEST_F(SessionRegistryTest, OpenStreamKeepsTheLease) {
  const auto host = Create();
  const auto reader = host->Attach(0, 0, 1, 0, std::nullopt, &wakeup_);
  ASSERT_THAT(reader, IsOk());
  for (int i = 0; i < 5; ++i) {
    now_ += absl::Seconds(60);
    EXPECT_THAT(registry_.Sweep(), IsEmpty());
  }
  host->CloseConsumer(reader->connection);
  now_ += absl::Seconds(29);
  EXPECT_THAT(registry_.Sweep(), IsEmpty());
  now_ += absl::Seconds(1);
  EXPECT_THAT(registry_.Sweep(), ElementsAre(kName));
}

TEST_F(SessionRegistryTest, SessionWithoutLeaseStays) {
  v1::CreateSessionRequest request = Request();
  request.mutable_session()->clear_lease_duration();
  const auto host = registry_.Create(request, Caller());
  ASSERT_THAT(host, IsOk());
  EXPECT_EQ((*host)->Renew(), absl::InfiniteDuration());
  now_ += absl::Hours(10'000);
  EXPECT_THAT(registry_.Sweep(), IsEmpty());
}

TEST_F(SessionRegistryTest, StandstillIsNamed) {
  const auto host = Create();
  now_ += absl::Seconds(20);
  EXPECT_EQ(host->ToProto().state(), v1::SESSION_STATE_READY);
  PutOne(*host, "a");
  EXPECT_EQ(host->ToProto().state(), v1::SESSION_STATE_RUNNING);
  const auto reader = host->Attach(0, 0, 1, 0, std::nullopt, &wakeup_);
  ASSERT_THAT(reader, IsOk());
  ASSERT_THAT(host->TrySend(reader->connection, 0), IsOk());
  ASSERT_THAT(host->Ack(reader->connection, 0), IsOk());
  now_ += absl::Seconds(10);
  EXPECT_EQ(host->ToProto().state(), v1::SESSION_STATE_STALLED);
  EXPECT_EQ(host->ToProto().state_detail(),
            "cp_rank 1 consumer 0 has not acknowledged step 0 and is not "
            "connected");
  const auto other = host->Attach(1, 0, 1, 0, std::nullopt, &wakeup_);
  ASSERT_THAT(other, IsOk());
  ASSERT_THAT(host->TrySend(other->connection, 0), IsOk());
  ASSERT_THAT(host->Ack(other->connection, 0), IsOk());
  EXPECT_EQ(host->ToProto().state(), v1::SESSION_STATE_RUNNING);
  now_ += absl::Seconds(10);
  EXPECT_EQ(host->ToProto().state_detail(),
            "producer b has the next step and is not connected");
  // Whoever watches is told by the clock, once.
  const int64_t before = host->events().newest();
  registry_.Sweep();
  registry_.Sweep();
  const auto news = host->events().WaitPast(before, absl::ZeroDuration());
  ASSERT_EQ(news.events.size(), 1);
  EXPECT_EQ(news.events[0].kind(), v1::EVENT_KIND_STATE);
  EXPECT_EQ(news.events[0].state(), v1::SESSION_STATE_STALLED);
}

TEST_F(SessionRegistryTest, UpdateChangesWhatTheMaskNamesAndNothingElse) {
  const auto host = Create();
  v1::Session values;
  (*values.mutable_labels())["team"] = "a";
  values.mutable_delivery()->set_max_step_skew(3);
  values.mutable_delivery()->set_max_uncommitted_steps(9);  // Not in the mask.
  values.mutable_limits()->set_memory_budget_bytes(40 * kBatchBytes);
  ASSERT_THAT(
      Update({"labels", "delivery.max_step_skew", "limits.memory_budget_bytes"},
             values),
      IsOk());
  const v1::Session now = host->ToProto();
  EXPECT_EQ(now.labels().at("team"), "a");
  EXPECT_EQ(now.delivery().max_step_skew(), 3);
  EXPECT_EQ(now.delivery().max_uncommitted_steps(), 2);
  EXPECT_EQ(now.limits().memory_budget_bytes(), 40 * kBatchBytes);
  EXPECT_EQ(now.limits().max_batch_bytes(), kBatchBytes);
  EXPECT_EQ(host->memory_budget_bytes(), 40 * kBatchBytes);
  // The request that made it still finds it.
  EXPECT_EQ(*registry_.Create(Request(), Caller()), host);
}

TEST_F(SessionRegistryTest, UpdateThatCannotBeIsRefusedWhole) {
  const auto host = Create();
  v1::Session values;
  values.mutable_topology()->set_cp_size(4);
  values.mutable_delivery()->set_max_step_skew(-1);
  (*values.mutable_labels())["team"] = "a";
  EXPECT_THAT(Update({}, values), HasReason(kBadOption));
  const absl::Status data = Update({"labels", "topology.cp_size"}, values);
  EXPECT_THAT(data, StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("cannot be changed")));
  EXPECT_EQ(FieldOf(data), "update_mask");
  const absl::Status skew = Update({"delivery.max_step_skew"}, values);
  EXPECT_EQ(FieldOf(skew), "delivery.max_step_skew");
  values.mutable_limits()->set_memory_budget_bytes(101 * kBatchBytes);
  const absl::Status memory = Update({"limits.memory_budget_bytes"}, values);
  EXPECT_THAT(memory, AllOf(StatusIs(absl::StatusCode::kResourceExhausted,
                                     HasSubstr("101000")),
                            HasReason(kMemoryPressure)));
  EXPECT_GT(RetryDelayOf(memory), absl::ZeroDuration());
  EXPECT_TRUE(host->ToProto().labels().empty());
}

TEST_F(SessionRegistryTest, LeaseMustBeOneThatCanBeKept) {
  v1::CreateSessionRequest request = Request();
  request.mutable_session()->mutable_lease_duration()->set_seconds(-1);
  const auto host = registry_.Create(request, Caller());
  EXPECT_EQ(FieldOf(host.status()), "lease_duration");
  EXPECT_THAT(host, HasReason(kBadOption));
}

TEST_F(SessionRegistryTest, DeletedSessionIsToldFromOneThatNeverWas) {
  v1::DeleteSessionRequest request;
  request.set_name(kName);
  EXPECT_THAT(registry_.Find(kName, Caller()).status(),
              HasReason(kSessionNotFound));
  Create();
  EXPECT_THAT(registry_.Delete(request, Caller()), IsOk());
  EXPECT_THAT(
      registry_.Find(kName, Caller()).status(),
      AllOf(StatusIs(absl::StatusCode::kNotFound, HasSubstr("was deleted")),
            HasReason(kSessionDeleted)));
  // Made again, and gone because its lease ran out.
  Create();
  now_ += absl::Seconds(31);
  EXPECT_THAT(registry_.Sweep(), ElementsAre(kName));
  EXPECT_THAT(registry_.Find(kName, Caller()).status(),
              HasReason(kSessionNotFound));
}

}  // namespace
}  // namespace cpfeed
