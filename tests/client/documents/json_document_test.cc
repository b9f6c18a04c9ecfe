#include "client/documents/json_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/documents/document_store.h"
#include "core/base/error.h"
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
using ::testing::Optional;

TEST(JsonDocumentTest, ReadsTokensInEachForm) {
  for (const char* line :
       {"[5, 6, 7]", " {\"input_ids\": [5,6,7]} ", "{\"tokens\":[5,6,7]}",
        "{\"id\": 3, \"tokens\": [5, 6, 7], \"meta\": {\"labels\": [1.5]}}",
        "{\"text\": \"ignored\", \"input_ids\": [5, 6, 7], \"labels\": null}",
        "{\"x\": [[1], {\"tokens\": [2]}], \"input_ids\": [5, 6, 7]}",
        "{\"input_ids\": [5, 6, 7], \"attention_mask\": [1, 1, 1]}"}) {
    const auto parsed = ParseJsonDocument(line);
    ASSERT_THAT(parsed, IsOk()) << line;
    EXPECT_THAT(parsed->document.input_ids, ElementsAre(5, 6, 7)) << line;
    EXPECT_FALSE(parsed->document.labels.has_value());
    EXPECT_FALSE(parsed->text.has_value());
  }
  EXPECT_THAT(ParseJsonDocument("[]")->document.input_ids, IsEmpty());
}

TEST(JsonDocumentTest, ReadsLabelsAndLossMask) {
  const auto parsed = ParseJsonDocument(
      R"({"labels": [6, -100], "loss_mask": [1, 0], "input_ids": [5, 6]})");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_THAT(parsed->document.labels, Optional(ElementsAre(6, -100)));
  EXPECT_THAT(parsed->document.loss_mask, Optional(ElementsAre(1, 0)));
}

TEST(JsonDocumentTest, ReadsText) {
  const auto parsed = ParseJsonDocument(R"({"text": "a\u00e4\n", "n": [1]})");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->text, "a\xc3\xa4\n");
}

struct BadLine {
  std::string name, line, message;
};

class JsonDocumentErrorTest : public ::testing::TestWithParam<BadLine> {};

TEST_P(JsonDocumentErrorTest, SaysWhatIsWrong) {
  EXPECT_THAT(ParseJsonDocument(GetParam().line),
              AllOf(HasReason(kInputMalformed),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, JsonDocumentErrorTest,
    ::testing::ValuesIn(std::vector<BadLine>{
        {"Empty", "", "this is no JSON at character"},
        {"CutOff", "{\"input_ids\": [5, 6", "this is no JSON at character"},
        {"TwoValues", "[5] [6]", "this is no JSON at character"},
        {"Number", "5", "line is a number; must be a list or an object"},
        {"String", "\"x\"", "line is a string"},
        {"NoTokens", "{\"id\": 5}", "no \"input_ids\", \"tokens\" or \"text\""},
        {"BothNames", "{\"input_ids\": [5], \"tokens\": [5]}",
         "\"input_ids\" and \"tokens\"; must have one"},
        {"Twice", "{\"tokens\": [5], \"tokens\": [6]}",
         "\"tokens\" is there twice"},
        {"Nested", "{\"tokens\": [5, [6]]}", "tokens[1] is a list"},
        {"BareNested", "[[5]]", "tokens[0] is a list"},
        {"ObjectInside", "[{}]", "tokens[0] is an object"},
        {"ObjectForList", "{\"labels\": {}}",
         "labels is an object; must be a list"},
        {"ScalarForList", "{\"tokens\": 5}",
         "tokens is a number; must be a list"},
        {"Fraction", "[5, 6.5]", "tokens[1] is a number with a fraction"},
        {"Null", "[null]", "tokens[0] is null; must be an integer"},
        {"Negative", "[5, -1]", "tokens[1] is -1; must be at least 0"},
        {"TooLarge", "[9223372036854775808]",
         "tokens[0] is an integer of 2^63 or more"},
        {"TextNoString", "{\"text\": 5}", "text is no string"},
        {"Labels", "{\"tokens\": [5, 6], \"labels\": [6]}",
         "labels has 1 entries; must have one for each of 2 tokens"},
        {"Padded", "{\"tokens\": [5, 0], \"attention_mask\": [1, 0]}",
         "attention_mask[1] is 0; documents must have no padding"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(JsonDocumentTest, NestingDoesNotEndTheProcess) {
  const std::string deep(1000000, '[');
  EXPECT_THAT(ParseJsonDocument("{\"x\": " + deep), HasReason(kInputMalformed));
}

}  // namespace
}  // namespace cpfeed
