#include "client/documents/open_documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/client/documents/input_files.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::Bytes;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::MakeFolder;
using ::cpfeed::testing::MegatronIdx;
using ::cpfeed::testing::Npy;
using ::cpfeed::testing::ReadAll;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kNpyDict[] =
    "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";

// One file of each format.
std::string FolderOfEach() {
  const std::string folder = MakeFolder();
  WriteFile(folder, "sub/b.txt", "b");
  WriteFile(folder, "a.md", "a");
  WriteFile(folder, ".hidden", "h");
  WriteFile(folder, ".git/config", "g");
  WriteFile(folder, "c.jsonl", "[1]\n[2]\n");
  WriteFile(folder, "d.npy", Npy(kNpyDict, "\x03\x04"));
  WriteFile(folder, "e.bin", Bytes<int32_t>({5}));
  WriteFile(folder, "e.idx", MegatronIdx(4, {1}, {0}, {0, 1}));
  std::filesystem::create_directory_symlink(folder, folder + "/loop");
  return folder;
}

struct FormatCase {
  std::string name;
  std::vector<std::string> paths;  // Below the folder.
  DocumentFormat format;
  std::vector<std::vector<int64_t>> documents;
};

class OpenDocumentsTest : public ::testing::TestWithParam<FormatCase> {};

TEST_P(OpenDocumentsTest, TakesTheFilesOfTheFormatByPath) {
  const std::string folder = FolderOfEach();
  DocumentInputs inputs{.format = GetParam().format};
  for (const std::string& path : GetParam().paths) {
    inputs.paths.push_back(folder + path);
  }
  const auto store = OpenDocuments(inputs);
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(ReadAll(**store), IsOkAndHolds(GetParam().documents));
  EXPECT_THAT((*store)->Count(), IsOkAndHolds(GetParam().documents.size()));
}

INSTANTIATE_TEST_SUITE_P(
    All, OpenDocumentsTest,
    ::testing::ValuesIn(std::vector<FormatCase>{
        // The binary files hold a byte 0; the .npy file does in its header.
        {"Folder",
         {""},
         DocumentFormat::kAuto,
         {{'a'}, {'[', '1', ']', '\n', '[', '2', ']', '\n'}, {'b'}}},
        {"FolderOfLines", {"/"}, DocumentFormat::kJsonl, {{1}, {2}}},
        {"FolderOfArrays", {""}, DocumentFormat::kNpy, {{3, 4}}},
        {"FolderOfDatasets", {""}, DocumentFormat::kMegatron, {{5}}},
        {"EachByItsEnding",
         {"/e.bin", "/d.npy", "/c.jsonl", "/a.md", "/sub", "/e"},
         DocumentFormat::kAuto,
         {{5}, {3, 4}, {1}, {2}, {'a'}, {'b'}, {5}}},
        {"LinesAsText",
         {"/c.jsonl"},
         DocumentFormat::kText,
         {{'[', '1', ']', '\n', '[', '2', ']', '\n'}}},
        {"IndexFile", {"/e.idx"}, DocumentFormat::kAuto, {{5}}},
        {"HiddenByName", {"/.hidden"}, DocumentFormat::kAuto, {{'h'}}},
    }),
    [](const auto& info) { return info.param.name; });

TEST(OpenDocumentsTest, CountsStoresOnlyWhenItMust) {
  const std::string folder = MakeFolder();
  const auto store =
      OpenDocuments({.paths = {WriteFile(folder, "a.jsonl", "[1]\nno json\n"),
                               WriteFile(folder, "b.jsonl", ""),
                               WriteFile(folder, "c.jsonl", "[2]\n")}});
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->Has(2), IsOkAndHolds(true));
  EXPECT_THAT((*store)->Read(2, 0, 1)->input_ids, ElementsAre(2));
  EXPECT_EQ((*store)->Name(2), folder + "/c.jsonl line 1");
  EXPECT_THAT((*store)->Has(3), IsOkAndHolds(false));
  EXPECT_THAT((*store)->Length(1),
              AllOf(HasReason(kInputMalformed),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("a.jsonl line 2: this is no JSON"))));
}

TEST(OpenDocumentsTest, RefusesWhatIsNotThere) {
  const std::string folder = MakeFolder();
  EXPECT_THAT(OpenDocuments({}), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("there is no input")));
  EXPECT_THAT(OpenDocuments({.paths = {folder + "/none"}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
  EXPECT_THAT(
      OpenDocuments({.paths = {folder}}),
      AllOf(HasReason(kBadOption), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("has no text file"))));
}

TEST(OpenDocumentsTest, TextsWithoutATokenizerAreBytes) {
  const std::string folder = FolderOfEach();
  EXPECT_TRUE(HasByteTokens({.paths = {folder, folder + "/a.md"}}));
  EXPECT_FALSE(HasByteTokens({.paths = {folder, folder + "/c.jsonl"}}));
  EXPECT_FALSE(HasByteTokens(
      {.paths = {folder}, .tokenizer = std::make_shared<ByteTokenizer>()}));
}

TEST(OpenDocumentsTest, FormatNamesAreRead) {
  EXPECT_THAT(ParseDocumentFormat("megatron"),
              IsOkAndHolds(DocumentFormat::kMegatron));
  EXPECT_THAT(ParseDocumentFormat("csv"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("format is \"csv\"; must be auto, text")));
}

}  // namespace
}  // namespace cpfeed
