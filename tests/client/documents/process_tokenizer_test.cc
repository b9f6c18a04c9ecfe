#include "client/documents/process_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "client/documents/open_documents.h"
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

// Words and punctuation marks as tokens; [CLS] would be a special token.
constexpr char kWordTokenizer[] = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [{"id": 0, "content": "[CLS]", "single_word": false,
                    "lstrip": false, "rstrip": false, "normalized": false,
                    "special": true}],
  "normalizer": null,
  "pre_tokenizer": {"type": "Whitespace"},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}},
             {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [0],
                                 "tokens": ["[CLS]"]}}},
  "decoder": null,
  "model": {"type": "WordLevel", "unk_token": "[UNK]",
    "vocab": {"[CLS]": 0, "[UNK]": 1, "ring": 2, "attention": 3, ".": 4,
              "sch\u00f6n": 100000}}
})";

std::string Python() { return "external/python/python3"; }

absl::StatusOr<std::shared_ptr<Tokenizer>> StartWith(const std::string& json) {
  return ProcessTokenizer::Start(
      WriteFile(MakeFolder(), "tokenizer.json", json), Python());
}

TEST(ProcessTokenizerTest, TokenizesWithoutSpecialTokens) {
  const auto tokenizer = StartWith(kWordTokenizer);
  ASSERT_THAT(tokenizer, IsOk());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT((*tokenizer)->Encode({"ring attention.", "", "sch\xc3\xb6n"}),
                IsOkAndHolds(ElementsAre(ElementsAre(2, 3, 4), IsEmpty(),
                                         ElementsAre(100000))));
  }
  EXPECT_THAT((*tokenizer)->Encode({}), IsOkAndHolds(IsEmpty()));
}

TEST(ProcessTokenizerTest, BytesThatAreNoTextAreUnknown) {
  const auto tokenizer = StartWith(kWordTokenizer);
  ASSERT_THAT(tokenizer, IsOk());
  EXPECT_THAT((*tokenizer)->Encode({"ring \xff\xfe ring"}),
              IsOkAndHolds(ElementsAre(ElementsAre(2, 1, 2))));
}

TEST(ProcessTokenizerTest, TakesTextsLargerThanASocketsBuffer) {
  const auto tokenizer = StartWith(kWordTokenizer);
  ASSERT_THAT(tokenizer, IsOk());
  std::string text;
  for (int i = 0; i < 150000; ++i) text += "ring . ";
  const auto encoded = (*tokenizer)->Encode({text, text});
  ASSERT_THAT(encoded, IsOk());
  EXPECT_EQ((*encoded)[1].size(), 300000);
  EXPECT_EQ((*encoded)[0], (*encoded)[1]);
}

TEST(ProcessTokenizerTest, FilesAndLinesAreTokenized) {
  const std::string folder = MakeFolder();
  const auto tokenizer = StartWith(kWordTokenizer);
  ASSERT_THAT(tokenizer, IsOk());
  WriteFile(folder, "docs/a", "attention");
  WriteFile(folder, "docs/b", "ring ring");
  const auto store = OpenDocuments(
      {.paths = {folder + "/docs",
                 WriteFile(folder, "c.jsonl", "{\"text\": \"ring.\"}\n[7]\n")},
       .tokenizer = *tokenizer});
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(ReadAll(**store),
              IsOkAndHolds(ElementsAre(ElementsAre(3), ElementsAre(2, 2),
                                       ElementsAre(2, 4), ElementsAre(7))));
}

TEST(ProcessTokenizerTest, FingerprintIsOfTheContents) {
  const auto one = StartWith(kWordTokenizer);
  const auto same = StartWith(kWordTokenizer);
  const auto other = StartWith(std::string(kWordTokenizer) + " ");
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(same, IsOk());
  ASSERT_THAT(other, IsOk());
  EXPECT_EQ((*one)->Fingerprint(), (*same)->Fingerprint());
  EXPECT_NE((*one)->Fingerprint(), (*other)->Fingerprint());
}

TEST(ProcessTokenizerTest, RefusesWhatIsNoTokenizer) {
  EXPECT_THAT(
      StartWith("{}"),
      AllOf(HasReason(kBadOption), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("tokenizer.json: "))));
  EXPECT_THAT(ProcessTokenizer::Start(MakeFolder() + "/none", Python()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
}

TEST(ProcessTokenizerTest, SaysWhereToGetAPython) {
  const std::string json =
      WriteFile(MakeFolder(), "tokenizer.json", kWordTokenizer);
  EXPECT_THAT(ProcessTokenizer::Start(json, "/no/python3"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("cannot start /no/python3"),
                             HasSubstr("run tools/setup --python"))));
  // A program that says nothing and ends.
  EXPECT_THAT(ProcessTokenizer::Start(json, "/bin/true"),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("ended before it answered")));
}

// Debian's own Python has no such package.
TEST(ProcessTokenizerTest, SaysThatThePackageIsMissing) {
  const std::string folder = MakeFolder();
  const std::string empty =
      WriteFile(folder, "python3",
                "#!/bin/sh\nshift; exec /usr/bin/env python3 -I -S \"$@\"\n");
  ASSERT_EQ(std::system(("chmod +x " + empty).c_str()), 0);
  EXPECT_THAT(ProcessTokenizer::Start(
                  WriteFile(folder, "tokenizer.json", kWordTokenizer), empty),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("cannot import tokenizers"),
                             HasSubstr("run tools/setup --python"))));
}

TEST(FindPythonTest, FindsTheEnvironmentAboveTheCurrentFolder) {
  const std::string folder = MakeFolder();
  const std::string python =
      WriteFile(folder, ".venv-python/bin/python3", "#!/bin/sh\n");
  std::filesystem::create_directories(folder + "/a/b");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder + "/a/b");
  EXPECT_TRUE(std::filesystem::equivalent(FindPython(), python));
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace cpfeed
