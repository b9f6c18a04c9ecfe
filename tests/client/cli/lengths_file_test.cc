#include "client/cli/lengths_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::FieldsAre;
using ::testing::HasSubstr;

struct Good {
  std::string name;
  std::string text;
  std::vector<int64_t> real;
  std::vector<int64_t> padded;
  std::vector<int64_t> row_splits;
};

class ParseLengthsTest : public ::testing::TestWithParam<Good> {};

TEST_P(ParseLengthsTest, ReadsTheForm) {
  const Good& good = GetParam();
  EXPECT_THAT(ParseLengths(good.text),
              IsOkAndHolds(FieldsAre(good.real, good.padded, good.row_splits)));
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseLengthsTest,
    ::testing::ValuesIn(std::vector<Good>{
        {"Lines", "12\n300\n5\n", {12, 300, 5}, {12, 300, 5}, {0, 3}},
        {"LinesWithSpaces", "\n 12\r\n\n300", {12, 300}, {12, 300}, {0, 2}},
        {"List", " [12, 300, 0]\n", {12, 300, 0}, {12, 300, 0}, {0, 3}},
        {"Rows",
         "[[12, 300], [], [5]]",
         {12, 300, 5},
         {12, 300, 5},
         {0, 2, 2, 3}},
        {"RealAndPadded",
         R"({"seq_lens": [[3, 2], [6]], "seq_lens_padded": [[4, 2], [8]]})",
         {3, 2, 6},
         {4, 2, 8},
         {0, 2, 3}},
        {"RealAlone",
         R"({"seq_lens": [3, 2], "seq_lens_padded": null})",
         {3, 2},
         {3, 2},
         {0, 2}},
        // For the planner to refuse, with the place in the pack.
        {"Negative", "[-1]", {-1}, {-1}, {0, 1}},
    }),
    [](const auto& info) { return info.param.name; });

struct Bad {
  std::string name;
  std::string text;
  std::string message;
};

class ParseLengthsErrorTest : public ::testing::TestWithParam<Bad> {};

TEST_P(ParseLengthsErrorTest, NamesThePlace) {
  EXPECT_THAT(ParseLengths(GetParam().text),
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr(GetParam().message)),
                    HasReason(kBatchMalformed)));
}

INSTANTIATE_TEST_SUITE_P(
    All, ParseLengthsErrorTest,
    ::testing::ValuesIn(std::vector<Bad>{
        {"Empty", "", "there are no lengths"},
        {"EmptyList", "[]", "there are no lengths"},
        {"EmptyRows", "[[], []]", "there are no lengths"},
        {"Word", "12\nabc", "line 2 is \"abc\"; must be a whole number"},
        {"TwoOnALine", "12 13", "line 1 is \"12 13\""},
        {"Fraction", "[1, 2.5]",
         "lengths[1] is 2.5; must be a whole number of tokens"},
        {"TooLarge", "[18446744073709551615]",
         "lengths[0] is 18446744073709551615"},
        {"Bool", "[true]", "lengths[0] is true"},
        {"Text", "[[1], [\"2\"]]", "lengths[1][0] is \"2\""},
        {"MixedRows", "[[1], 2]", "lengths[1] is 2; must be a list"},
        {"RowAmongNumbers", "[1, [2]]", "lengths[1] is [2]"},
        {"Broken", "[1, 2", "lengths are no valid JSON"},
        {"NoSeqLens", "{\"lengths\": [1]}", "the object has no seq_lens"},
        {"SeqLensNoList", "{\"seq_lens\": 3}", "seq_lens is 3; must be a list"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ParseLengthsPairTest, RefusesListsOfDifferentForm) {
  EXPECT_THAT(
      ParseLengths(R"({"seq_lens": [[3, 2]], "seq_lens_padded": [[4]]})"),
      AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                     HasSubstr("have 2 and 1 lengths")),
            HasReason(kLengthsInconsistent)));
  EXPECT_THAT(
      ParseLengths(R"({"seq_lens": [[3, 2]], "seq_lens_padded": [[4], [2]]})"),
      HasReason(kLengthsInconsistent));
}

TEST(ReadLengthsFileTest, ReadsAFile) {
  const std::string path = ::testing::TempDir() + "/lengths.txt";
  std::ofstream(path) << "8\n4\n";
  EXPECT_THAT(ReadLengthsFile(path), IsOk());
}

TEST(ReadLengthsFileTest, ErrorsStartWithThePath) {
  const std::string path = ::testing::TempDir() + "/words.txt";
  std::ofstream(path) << "eight";
  EXPECT_THAT(ReadLengthsFile(path),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(path + ": line 1 is \"eight\"")));
  EXPECT_THAT(ReadLengthsFile("/does/not/exist"),
              AllOf(StatusIs(absl::StatusCode::kInvalidArgument,
                             "/does/not/exist: cannot be read: No such file or "
                             "directory"),
                    HasReason(kBadOption)));
}

TEST(ReadLengthsFileTest, FoldersCannotBeRead) {
  EXPECT_THAT(ReadLengthsFile("/"), HasReason(kBadOption));
}

}  // namespace
}  // namespace cpfeed
