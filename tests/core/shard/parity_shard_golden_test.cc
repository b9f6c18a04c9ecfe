// Sharding in the parity modes against what the releases themselves returned.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/batch/parity.h"
#include "core/shard/parity_shard.h"
#include "tests/testing/golden.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::DictOf;
using ::cpfeed::testing::GoldenCases;
using ::cpfeed::testing::GoldenId;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::JsonOf;
using ::cpfeed::testing::StatusIs;
using ::nlohmann::json;
using ::testing::_;

absl::StatusOr<ParityShard> ShardOf(const json& golden, Parity parity,
                                    int cp_rank) {
  const json& args = golden["args"];
  return MakeCpBatchForTe(
      DictOf(golden["in"]),
      {.parity = parity,
       .num_chunks = args["num_chunks"],
       .padding_token_id = args["padding_token_id"],
       .seq_lens_padding_value = args["seq_lens_padding_value"]},
      args["qkv_format"].get<std::string>(),
      {.cp_size = args["cp_size"], .cp_rank = cp_rank});
}

json JsonOf(const ParityShard& shard) {
  ParityDict dict = shard.batch;
  if (shard.local_indices) dict.Set("local_indices", *shard.local_indices);
  return testing::JsonOf(dict);
}

// As in parity_thd_golden_test.cc, rank by rank.
void ExpectUpstream(const json& golden, Parity parity, const char* era) {
  const json& expected = golden["out"][era];
  for (int rank = 0; rank < golden["args"]["cp_size"]; ++rank) {
    SCOPED_TRACE(rank);
    const auto result = ShardOf(golden, parity, rank);
    if (expected.contains("err")) {
      const std::string type = expected["err"]["type"];
      EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument, _));
      EXPECT_THAT(result, HasReason(type));
    } else if (!golden["reject"].empty()) {
      EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument, _));
    } else {
      ASSERT_EQ(expected["ranks"].size(), golden["args"]["cp_size"]);
      ASSERT_THAT(result, IsOk());
      EXPECT_EQ(JsonOf(*result), expected["ranks"][rank]);
    }
  }
}

class ParityShardGoldenTest : public ::testing::TestWithParam<json> {};

TEST_P(ParityShardGoldenTest, Automodel04IsEqual) {
  ExpectUpstream(GetParam(), Parity::kAutomodel04, "A");
}

TEST_P(ParityShardGoldenTest, Automodel07IsEqual) {
  ExpectUpstream(GetParam(), Parity::kAutomodel07, "B2");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ParityShardGoldenTest,
    ::testing::ValuesIn(GoldenCases("automodel_te_shard.json")), GoldenId);

}  // namespace
}  // namespace cpfeed
