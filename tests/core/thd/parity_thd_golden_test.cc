// Conversion in the parity modes against what the releases themselves returned.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/batch/parity.h"
#include "core/thd/parity_thd.h"
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

absl::StatusOr<ParityDict> Convert(const json& golden, Parity parity) {
  const json& args = golden["args"];
  const ParityOptions options{
      .parity = parity,
      .num_chunks = args["num_chunks"],
      .padding_token_id = args["padding_token_id"],
      .seq_lens_padding_value = args["seq_lens_padding_value"]};
  const ParityDict in = DictOf(golden["in"]);
  if (golden["fn"] == "process_input_for_thd") {
    return ProcessInputForThd(in, options);
  }
  EXPECT_EQ(golden["fn"], "split_batch_into_thd_chunks");
  return SplitBatchIntoThdChunks(in, options);
}

// What upstream raises has its exception's type as the reason; what it accepts
// and no mode may accept is refused; all else is equal, key for key.
void ExpectUpstream(const json& golden, Parity parity, const char* era) {
  const json& expected = golden["out"][era];
  const auto result = Convert(golden, parity);
  if (expected.contains("err")) {
    const std::string type = expected["err"]["type"];
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument, _));
    EXPECT_THAT(result, HasReason(type));
  } else if (!golden["reject"].empty()) {
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument, _));
  } else {
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(JsonOf(*result), expected);
  }
}

class ParityThdGoldenTest : public ::testing::TestWithParam<json> {};

TEST_P(ParityThdGoldenTest, Automodel04IsEqual) {
  ExpectUpstream(GetParam(), Parity::kAutomodel04, "A");
}

TEST_P(ParityThdGoldenTest, Automodel07IsEqual) {
  ExpectUpstream(GetParam(), Parity::kAutomodel07, "B2");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ParityThdGoldenTest,
    ::testing::ValuesIn(GoldenCases("automodel_thd_convert.json")), GoldenId);

}  // namespace
}  // namespace cpfeed
