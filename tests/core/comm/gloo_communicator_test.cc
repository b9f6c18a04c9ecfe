#include "core/comm/gloo_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/comm/collectives.h"
#include "core/comm/rendezvous_store.h"
#include "tests/core/comm/communicator_conformance.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::HasSubstr;

// A store of this process at a free port.
std::shared_ptr<RendezvousStore> HostStore() {
  auto store =
      RendezvousStore::Open({.host = true, .timeout = absl::Seconds(60)});
  EXPECT_THAT(store, IsOk());
  return *store;
}

std::shared_ptr<RendezvousStore> ConnectTo(int port) {
  auto store =
      RendezvousStore::Open({.port = port, .timeout = absl::Seconds(60)});
  EXPECT_THAT(store, IsOk());
  return *store;
}

absl::StatusOr<std::unique_ptr<Communicator>> Join(
    const std::shared_ptr<RendezvousStore>& store, int rank, int size,
    const CommOptions& comm, absl::Duration join_timeout = absl::Seconds(60)) {
  return JoinGlooGroup(store, {.rank = rank,
                               .size = size,
                               .comm = comm,
                               .join_timeout = join_timeout,
                               .host_name = "127.0.0.1"});
}

// Every rank with a store of its own, as processes have; rank 0 hosts it.
std::vector<std::unique_ptr<Communicator>> MakeGlooGroup(
    int size, const CommOptions& options) {
  const auto host = HostStore();
  std::vector<std::unique_ptr<Communicator>> ends(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto end =
          Join(rank == 0 ? host : ConnectTo(host->port()), rank, size, options);
      ASSERT_THAT(end, IsOk());
      ends[rank] = *std::move(end);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

INSTANTIATE_TEST_SUITE_P(Gloo, CommunicatorConformanceTest,
                         ::testing::Values(CommunicatorKind{"Gloo",
                                                            MakeGlooGroup}),
                         [](const auto& info) { return info.param.name; });

TEST(GlooCommunicatorTest, RankThatNeverJoinsIsNamed) {
  // Three ranks are asked for; 0 comes and gives up, then 2 comes: 1 never.
  const auto store = HostStore();
  const auto early = Join(store, 0, 3, {.group_name = "late"},
                          /*join_timeout=*/absl::Milliseconds(200));
  EXPECT_THAT(early, StatusIs(absl::StatusCode::kDeadlineExceeded,
                              HasSubstr("rank 1, 2 of 3 did not join")));
  const auto end = Join(store, 2, 3, {.group_name = "late"},
                        /*join_timeout=*/absl::Milliseconds(200));
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kDeadlineExceeded,
                            HasSubstr("group \"late\": rank 1 of 3 did not "
                                      "join within 200ms")));
  EXPECT_THAT(end, HasReason(kPeerLate));
}

// Both ranks send before they receive: from some size on that would hang, were
// sends and receives not one exchange.
TEST(GlooCommunicatorTest, RingStepsOfAnySizePassEachOther) {
  auto ends = MakeGlooGroup(2, {.timeout = absl::Seconds(60)});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      for (const size_t bytes : {4096, 1 << 20, 64 << 20}) {
        const std::vector<std::byte> send(bytes, std::byte(rank + 1));
        std::vector<std::byte> receive(bytes);
        const auto shift = StartRingShift(*ends[rank], {absl::MakeSpan(send)},
                                          {absl::MakeSpan(receive)});
        ASSERT_THAT(shift, IsOk());
        ASSERT_THAT((*shift)->Wait(), IsOk());
        EXPECT_EQ(receive.front(), std::byte(2 - rank));
        EXPECT_EQ(receive.back(), std::byte(2 - rank));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(GlooCommunicatorTest, NewGroupFormsUnderANewNameAfterAFailure) {
  const auto store = HostStore();
  for (const char* const name : {"generation-1", "generation-2"}) {
    std::thread other([&] {
      auto end = Join(ConnectTo(store->port()), 1, 2, {.group_name = name});
      ASSERT_THAT(end, IsOk());
      ASSERT_THAT(Barrier(**end), IsOk());
    });
    auto end = Join(store, 0, 2, {.group_name = name});
    ASSERT_THAT(end, IsOk());
    ASSERT_THAT(Barrier(**end), IsOk());
    other.join();
    EXPECT_FALSE(Barrier(**end).ok());  // The peer has left.
  }
}

constexpr char kPortVariable[] = "CPFEED_TEST_STORE_PORT";

// The other process of the next test: joins, then waits for what never comes.
TEST(GlooCommunicatorTest, DISABLED_ChildJoinsAndWaits) {
  const char* const port = std::getenv(kPortVariable);
  ASSERT_NE(port, nullptr);
  auto end = Join(ConnectTo(std::atoi(port)), 1, 2, {});
  ASSERT_THAT(end, IsOk());
  ASSERT_THAT(Barrier(**end), IsOk());
  std::vector<std::byte> never(1);
  EXPECT_FALSE((*end)->Exchange({}, {{0, absl::MakeSpan(never)}}).ok());
}

TEST(GlooCommunicatorTest, KilledProcessIsNamedLongBeforeTheTimeout) {
  const auto store = HostStore();
  ASSERT_EQ(setenv(kPortVariable, absl::StrCat(store->port()).c_str(), 1), 0);
  const char* const arguments[] = {
      "child", "--gtest_also_run_disabled_tests",
      "--gtest_filter=GlooCommunicatorTest.DISABLED_ChildJoinsAndWaits",
      nullptr};
  pid_t child;
  ASSERT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr,
                        const_cast<char* const*>(arguments), environ),
            0);
  auto end = Join(store, 0, 2, {.timeout = absl::Hours(1)});
  ASSERT_THAT(end, IsOk());
  ASSERT_THAT(Barrier(**end), IsOk());
  ASSERT_EQ(kill(child, SIGKILL), 0);
  const absl::Status status = Barrier(**end);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("rank 1 of 2 failed")));
  EXPECT_THAT(status, HasReason(kPeerLost));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(GlooCommunicatorTest, RankOutOfRangeIsRefused) {
  EXPECT_THAT(Join(HostStore(), 2, 2, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rank is 2; must be in [0, 2)")));
}

TEST(RendezvousStoreTest, ValuesReachEveryProcess) {
  const auto host = HostStore();
  const auto other = ConnectTo(host->port());
  const std::string value("7\0x", 3);
  EXPECT_THAT(other->Has("generation"), IsOkAndHolds(false));
  ASSERT_THAT(host->Set("generation", {value.data(), value.size()}), IsOk());
  EXPECT_THAT(other->Get("generation"), IsOkAndHolds(value));
  EXPECT_THAT(other->Has("generation"), IsOkAndHolds(true));
}

TEST(RendezvousStoreTest, UnsetKeyIsNamed) {
  EXPECT_THAT(HostStore()->Wait({"cursor"}, absl::Milliseconds(100)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("cursor not set within 100ms")));
}

TEST(RendezvousStoreTest, AbsentHostIsNamed) {
  const int port = HostStore()->port();  // Gone at once.
  EXPECT_THAT(
      RendezvousStore::Open({.port = port, .timeout = absl::Milliseconds(200)}),
      StatusIs(absl::StatusCode::kUnavailable,
               HasSubstr(absl::StrCat("127.0.0.1:", port, " not reached"))));
}

TEST(RendezvousStoreTest, TakenPortIsNamed) {
  const auto store = HostStore();
  EXPECT_THAT(
      RendezvousStore::Open({.port = store->port(), .host = true}),
      StatusIs(absl::StatusCode::kUnavailable,
               HasSubstr(absl::StrCat(store->port(), " cannot be hosted"))));
}

}  // namespace
}  // namespace cpfeed::testing
