#include "client/documents/jsonl_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "client/documents/tokenizer.h"
#include "core/base/error.h"
#include "tests/client/documents/input_files.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::MakeFolder;
using ::cpfeed::testing::ReadAll;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

absl::StatusOr<std::unique_ptr<JsonlStore>> OpenLines(
    const std::string& lines) {
  return JsonlStore::Open(WriteFile(MakeFolder(), "x.jsonl", lines),
                          std::make_shared<ByteTokenizer>());
}

TEST(JsonlStoreTest, ALineIsADocumentAndBlankLinesAreNone) {
  for (const char* end : {"", "\n", "\r\n\n"}) {
    const auto store = OpenLines(
        std::string("[1,2]\r\n\n  \n{\"text\": \"ab\"}\n[]\n[3]") + end);
    ASSERT_THAT(store, IsOk());
    EXPECT_THAT(ReadAll(**store), IsOkAndHolds(ElementsAre(
                                      ElementsAre(1, 2), ElementsAre('a', 'b'),
                                      IsEmpty(), ElementsAre(3))));
    EXPECT_THAT((*store)->Count(), IsOkAndHolds(4));
  }
}

TEST(JsonlStoreTest, CountsBeforeAnythingIsRead) {
  const auto store = OpenLines("[1]\n\n[2]\n");
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Count(), IsOkAndHolds(2));
  EXPECT_THAT((*store)->Read(1, 0, 1)->input_ids, ElementsAre(2));
  EXPECT_THAT((*store)->Has(2), IsOkAndHolds(false));
}

TEST(JsonlStoreTest, EmptyFileHasNoDocuments) {
  const auto store = OpenLines("");
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Has(0), IsOkAndHolds(false));
}

TEST(JsonlStoreTest, PiecesTakeTheirLabelsAlong) {
  const auto store = OpenLines(
      R"({"input_ids": [1,2,3], "labels": [2,3,-100], "loss_mask": [1,0,1]})");
  ASSERT_THAT(store, IsOk());
  ASSERT_THAT((*store)->Has(0), IsOkAndHolds(true));
  const auto piece = (*store)->Read(0, 1, 2);
  ASSERT_THAT(piece, IsOk());
  EXPECT_THAT(piece->input_ids, ElementsAre(2));
  EXPECT_THAT(piece->labels, Optional(ElementsAre(3)));
  EXPECT_THAT(piece->loss_mask, Optional(ElementsAre(0)));
  EXPECT_EQ(piece->next_token, 3);
}

TEST(JsonlStoreTest, ErrorsNameTheLine) {
  const auto store = OpenLines("[1]\n\n[2,\n[3]\n");
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(ReadAll(**store),
              AllOf(HasReason(kInputMalformed),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("x.jsonl line 3: this is no JSON"))));
  // And the next one can still be read.
  ASSERT_THAT((*store)->Has(2), IsOkAndHolds(true));
  EXPECT_THAT((*store)->Length(2), IsOkAndHolds(1));
}

}  // namespace
}  // namespace cpfeed
