#include "client/worker/expected_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "tests/client/worker/job_steps.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ExpectedBatchesTest, ReadsTheDocumentsOfALine) {
  auto file = ExpectedBatches::Open(WriteLines(
      {R"({"input_ids": [[5,6,7,0,8,0],[1,2,3,4,5,6]],)"
       R"("seq_lens": [[3,1],[6,-1000]],"seq_lens_padded": [[4,2],[6]],)"
       R"("position_ids": [[0,1,2,3,7,8],[0,1,2,3,4,5]],)"
       R"("labels": [[6,7,-100,0,9,0],[2,3,4,5,6,7]]})"}));
  ASSERT_THAT(file, IsOk());
  const auto batch = file->Read(0);
  ASSERT_THAT(batch, IsOk());
  ASSERT_EQ((*batch)->size(), 3);
  EXPECT_THAT((**batch)[0].tokens, ElementsAre(5, 6, 7));
  EXPECT_THAT((**batch)[1].tokens, ElementsAre(8));
  EXPECT_THAT((**batch)[1].positions, ElementsAre(7));
  EXPECT_THAT((**batch)[0].labels, ElementsAre(6, 7, -100));
  EXPECT_THAT((**batch)[1].labels, ElementsAre(9));
  EXPECT_THAT((**batch)[2].tokens, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(ExpectedBatchesTest, RowWithoutLengthsIsOneDocument) {
  auto file = ExpectedBatches::Open(WriteLines({R"({"input_ids": [[4,5]]})"}));
  ASSERT_THAT(file, IsOk());
  const auto batch = file->Read(0);
  ASSERT_THAT(batch, IsOk());
  ASSERT_EQ((*batch)->size(), 1);
  EXPECT_THAT((**batch)[0].positions, ElementsAre(0, 1));
  EXPECT_THAT((**batch)[0].labels, IsEmpty());
}

TEST(ExpectedBatchesTest, LineIsTheStepsNumber) {
  auto file = ExpectedBatches::Open(
      WriteLines({R"({"input_ids": [[10]]})", R"({"input_ids": [[11]]})",
                  R"({"input_ids": [[12]]})"}));
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT((**file->Read(0))[0].tokens, ElementsAre(10));
  EXPECT_THAT((**file->Read(2))[0].tokens, ElementsAre(12));
  EXPECT_FALSE((*file->Read(3)).has_value());
}

TEST(ExpectedBatchesTest, MissingFileIsNamed) {
  EXPECT_THAT(ExpectedBatches::Open("/nonexistent/batches.jsonl").status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("/nonexistent/batches.jsonl")));
}

struct BadLine {
  std::string name;
  std::string line;
  std::string message;
};
class BadLineTest : public ::testing::TestWithParam<BadLine> {};

TEST_P(BadLineTest, IsRefusedWithFileAndLine) {
  const std::string path =
      WriteLines({R"({"input_ids": [[1]]})", GetParam().line});
  auto file = ExpectedBatches::Open(path);
  ASSERT_THAT(file, IsOk());
  const auto batch = file->Read(1);
  EXPECT_THAT(batch, StatusIs(absl::StatusCode::kInvalidArgument,
                              AllOf(HasSubstr(absl::StrCat(path, ":2")),
                                    HasSubstr(GetParam().message))));
  EXPECT_THAT(batch, HasReason(kBatchMalformed));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadLineTest,
    ::testing::ValuesIn(std::vector<BadLine>{
        {"NoJson", "{", "must be an object"},
        {"NoObject", "[1]", "must be an object"},
        {"NoIds", "{}", "input_ids must be a list of rows"},
        {"Flat", R"({"input_ids": [1]})", "input_ids must be a list of rows"},
        {"Floats", R"({"input_ids": [[1.5]]})", "lists of integers"},
        {"Rows", R"({"input_ids": [[1]], "seq_lens": []})", "differ in rows"},
        {"Counts",
         R"({"input_ids": [[1,2]], "seq_lens": [[1,1]],)"
         R"("seq_lens_padded": [[2]]})",
         "row 0: lists of a row differ in length"},
        {"Positions", R"({"input_ids": [[1,2]], "position_ids": [[0]]})",
         "row 0: lists of a row differ in length"},
        {"Labels", R"({"input_ids": [[1,2]], "labels": [[0,1,2]]})",
         "row 0: lists of a row differ in length"},
        {"LabelRows", R"({"input_ids": [[1,2]], "labels": []})",
         "lists differ in rows"},
        {"TooLong", R"({"input_ids": [[1,2]], "seq_lens": [[1,2]]})",
         "sequence 1 of 2 tokens in a slot of 2 does not fit its row of 2"},
        {"RealAboveSlot",
         R"({"input_ids": [[1,2]], "seq_lens": [[2]],)"
         R"("seq_lens_padded": [[1]]})",
         "sequence 0 of 2 tokens in a slot of 1"},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed::testing
