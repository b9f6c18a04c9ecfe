#include "client/worker/worker_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/comm/collectives.h"
#include "core/comm/reduction.h"
#include "core/comm/rendezvous_store.h"
#include "core/tensor/dtype.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::HasSubstr;

Environment Of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](
             const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

TEST(WorkerEnvironmentTest, WithoutVariablesItIsOneRank) {
  const auto environment = ReadWorkerEnvironment(Of({}));
  ASSERT_THAT(environment, IsOk());
  EXPECT_EQ(environment->rank, 0);
  EXPECT_EQ(environment->world_size, 1);
  const auto group = JoinWorkers(*environment, absl::Seconds(1));
  ASSERT_THAT(group, IsOk());
  EXPECT_EQ((*group)->size(), 1);
}

TEST(WorkerEnvironmentTest, ReadsWhatTorchrunSets) {
  const auto environment =
      ReadWorkerEnvironment(Of({{"RANK", "3"},
                                {"WORLD_SIZE", "4"},
                                {"LOCAL_RANK", "1"},
                                {"MASTER_ADDR", "node0"},
                                {"MASTER_PORT", "1234"},
                                {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                {"TORCHELASTIC_RESTART_COUNT", "2"},
                                {"GLOO_SOCKET_IFNAME", "eth1"}}));
  ASSERT_THAT(environment, IsOk());
  EXPECT_EQ(environment->rank, 3);
  EXPECT_EQ(environment->world_size, 4);
  EXPECT_EQ(environment->master_addr, "node0");
  EXPECT_EQ(environment->master_port, 1234);
  EXPECT_TRUE(environment->agent_store);
  EXPECT_EQ(environment->restart, 2);
  EXPECT_EQ(environment->interface_name, "eth1");
}

TEST(WorkerEnvironmentTest, WrongNumbersAreNamed) {
  EXPECT_THAT(ReadWorkerEnvironment(Of({{"WORLD_SIZE", "two"}})).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("WORLD_SIZE is \"two\"")));
  EXPECT_THAT(
      ReadWorkerEnvironment(Of({{"WORLD_SIZE", "2"}, {"RANK", "2"}})).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("RANK is \"2\"; must be in [0, 1]")));
}

// As under torchrun: somebody else serves the store.
TEST(WorkerEnvironmentTest, RanksMeetAtTheAgentsStore) {
  const auto store =
      RendezvousStore::Open({.host = true, .timeout = absl::Seconds(60)});
  ASSERT_THAT(store, IsOk());
  for (const char* const restart : {"0", "1"}) {
    std::vector<std::thread> ranks;
    for (const char* const rank : {"0", "1"}) {
      ranks.emplace_back([&, rank] {
        const auto environment = ReadWorkerEnvironment(
            Of({{"RANK", rank},
                {"WORLD_SIZE", "2"},
                {"MASTER_ADDR", "127.0.0.1"},
                {"MASTER_PORT", absl::StrCat((*store)->port())},
                {"TORCHELASTIC_RESTART_COUNT", restart},
                {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
        ASSERT_THAT(environment, IsOk());
        const auto group = JoinWorkers(*environment, absl::Seconds(60));
        ASSERT_THAT(group, IsOk());
        EXPECT_EQ((*group)->options().group_name, absl::StrCat("cp.", restart));
        EXPECT_THAT(Barrier(**group), IsOk());
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
}

// Four ranks of dp=2,cp=2: each group sums the ranks of its own.
TEST(WorkerEnvironmentTest, GroupsOfAMeshAreApart) {
  const auto store =
      RendezvousStore::Open({.host = true, .timeout = absl::Seconds(60)});
  ASSERT_THAT(store, IsOk());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto environment = ReadWorkerEnvironment(
          Of({{"RANK", absl::StrCat(rank)},
              {"WORLD_SIZE", "4"},
              {"CPFEED_MESH", "dp=2,cp=2"},
              {"MASTER_ADDR", "127.0.0.1"},
              {"MASTER_PORT", absl::StrCat((*store)->port())},
              {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
      ASSERT_THAT(environment, IsOk());
      EXPECT_EQ(environment->place->session,
                absl::StrCat("train-dp", rank / 2));
      auto group = JoinWorkers(*environment, absl::Seconds(60));
      ASSERT_THAT(group, IsOk());
      EXPECT_EQ((*group)->size(), 2);
      EXPECT_EQ((*group)->rank(), rank % 2);
      int64_t sum = rank;
      EXPECT_THAT(
          AllReduce(**group, DType::kInt64, ReduceOp::kSum,
                    absl::MakeSpan(reinterpret_cast<std::byte*>(&sum), 8)),
          IsOk());
      EXPECT_EQ(sum, rank < 2 ? 0 + 1 : 2 + 3);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace cpfeed::testing
