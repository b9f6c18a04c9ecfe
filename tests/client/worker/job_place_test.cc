#include "client/worker/job_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
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

TEST(JobPlaceTest, WithoutAMeshThereIsNone) {
  const auto place = ReadJobPlace(Of({{"CPFEED_JOB", "train"}}), 0, 4);
  ASSERT_THAT(place, IsOk());
  EXPECT_FALSE(place->has_value());
}

// Ranks of dp=2,cp=4,tp=2: 0 1 are cp_rank 0 of dp_rank 0, 2 3 its cp_rank 1;
// 8 begins dp_rank 1, so 11 is its cp_rank 1, consumer 1.
TEST(JobPlaceTest, InnerDimensionsTurnFastest) {
  const auto place =
      ReadJobPlace(Of({{"CPFEED_MESH", "dp=2,cp=4,tp=2"},
                       {"CPFEED_SERVER", "dns:///cpfeed-{ordinal}.cpfeed:8470"},
                       {"CPFEED_REPLICAS", "2"}}),
                   11, 16);
  ASSERT_THAT(place, IsOk());
  ASSERT_TRUE(place->has_value());
  EXPECT_EQ((*place)->cp_rank, 1);
  EXPECT_EQ((*place)->cp_size, 4);
  EXPECT_EQ((*place)->consumer, 1);
  EXPECT_EQ((*place)->group, 3);
  EXPECT_EQ((*place)->num_groups, 4);
  EXPECT_EQ((*place)->session, "train-dp1");
  EXPECT_EQ((*place)->server, "dns:///cpfeed-1.cpfeed:8470");
}

TEST(JobPlaceTest, AllDpDimensionsAreOneAndServersAreTakenInTurn) {
  const auto place =
      ReadJobPlace(Of({{"CPFEED_MESH", "dp_replicate=3, dp_shard=2,cp=2"},
                       {"CPFEED_SERVER", "cpfeed-{ordinal}:8470"},
                       {"CPFEED_REPLICAS", "2"},
                       {"CPFEED_JOB", "llama"}}),
                   11, 12);
  ASSERT_THAT(place, IsOk());
  EXPECT_EQ((*place)->cp_rank, 1);
  EXPECT_EQ((*place)->session, "llama-dp5");
  EXPECT_EQ((*place)->server, "cpfeed-1:8470");
}

TEST(JobPlaceTest, EveryRankHasAPlaceOfItsOwn) {
  for (const char* const mesh :
       {"cp=12", "dp=12", "dp=3,cp=4", "cp=2,dp=6", "pp=2,dp=2,cp=3",
        "pp=2,dp_replicate=1,cp=2,dp_shard=3"}) {
    std::set<std::tuple<std::string, int, int>> places;
    std::set<std::pair<int, int>> members;
    for (int rank = 0; rank < 12; ++rank) {
      const auto place = ReadJobPlace(Of({{"CPFEED_MESH", mesh}}), rank, 12);
      ASSERT_THAT(place, IsOk());
      places.emplace((*place)->session, (*place)->cp_rank, (*place)->consumer);
      members.emplace((*place)->group, (*place)->cp_rank);
      EXPECT_EQ((*place)->num_groups * (*place)->cp_size, 12);
      EXPECT_LT((*place)->group, (*place)->num_groups);
    }
    EXPECT_EQ(places.size(), 12) << mesh;
    EXPECT_EQ(members.size(), 12) << mesh;
  }
}

struct Wrong {
  const char* name;
  std::map<std::string, std::string> variables;
  const char* message;
};

class WrongJobPlaceTest : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongJobPlaceTest, IsNamed) {
  const auto place = ReadJobPlace(Of(GetParam().variables), 0, 4);
  EXPECT_THAT(place.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr(GetParam().message)));
  EXPECT_EQ(ReasonOf(place.status()), kBadOption);
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongJobPlaceTest,
    ::testing::ValuesIn(std::vector<Wrong>{
        {"OtherSize",
         {{"CPFEED_MESH", "dp=2,cp=4"}},
         "\"dp=2,cp=4\"; its sizes must multiply to WORLD_SIZE, 4"},
        {"Empty", {{"CPFEED_MESH", ""}}, "a new name, '=' and a size"},
        {"NoSize", {{"CPFEED_MESH", "cp"}}, "has \"cp\""},
        {"Zero", {{"CPFEED_MESH", "dp=0,cp=4"}}, "has \"dp=0\""},
        {"Twice", {{"CPFEED_MESH", "cp=2,cp=2"}}, "has \"cp=2\""},
        {"Overflow",
         {{"CPFEED_MESH", "a=32767,b=32767,c=32767,d=32767,e=32767"}},
         "must multiply to WORLD_SIZE, 4"},
        {"Replicas",
         {{"CPFEED_MESH", "cp=4"}, {"CPFEED_REPLICAS", "none"}},
         "CPFEED_REPLICAS is \"none\""},
        {"NoOrdinal",
         {{"CPFEED_MESH", "cp=4"},
          {"CPFEED_REPLICAS", "2"},
          {"CPFEED_SERVER", "cpfeed:8470"}},
         "must have {ordinal}, as CPFEED_REPLICAS is 2"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed::testing
