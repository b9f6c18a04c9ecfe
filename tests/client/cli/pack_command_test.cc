#include "client/cli/pack_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/command_status.h"
#include "tests/client/documents/input_files.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::MakeFolder;
using ::cpfeed::testing::WriteFile;
using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Result {
  int status = -1;
  std::string out, err;
};

Result PackWith(const PackCommandOptions& options) {
  std::ostringstream out, err;
  Result result;
  result.status = RunPack(options, out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

std::vector<json> Lines(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(json::parse(line));
  }
  return lines;
}

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Options for the documents [1, 2, 3] and [4, 5] in rows of 8.
PackCommandOptions TwoDocuments(const std::string& folder) {
  PackCommandOptions options;
  options.flags.inputs = {WriteFile(folder, "x.jsonl", "[1,2,3]\n[4,5]\n")};
  options.flags.row_width = 8;
  return options;
}

TEST(PackCommandTest, WritesABatchALine) {
  // [1 2 3 . | 4 5 . .]  slots are multiples of 2 * cp_size.
  PackCommandOptions options = TwoDocuments(MakeFolder());
  options.flags.cp_size = 2;
  const Result result = PackWith(options);
  EXPECT_EQ(result.status, kExitOk) << result.err;
  EXPECT_EQ(result.out,
            "{\"input_ids\":[[1,2,3,0,4,5,0,0]],"
            "\"labels\":[[2,3,-100,-100,5,-100,-100,-100]],"
            "\"position_ids\":[[0,1,2,3,0,1,2,3]],"
            "\"seq_lens\":[[3,2]],\"seq_lens_padded\":[[4,4]]}\n");
  EXPECT_THAT(result.err, AllOf(HasSubstr("batches    1 of 1 rows"),
                                HasSubstr("full to 62.50 %")));
}

TEST(PackCommandTest, WritesStatisticsAsJson) {
  const std::string folder = MakeFolder();
  PackCommandOptions options = TwoDocuments(folder);
  options.output = folder + "/out.jsonl";
  options.json = true;
  const Result result = PackWith(options);
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_EQ(json::parse(result.out), json({{"status", "OK"},
                                           {"batches", 1},
                                           {"rows", 1},
                                           {"sequences", 2},
                                           {"documents", 2},
                                           {"tokens", 5},
                                           {"padding", 3},
                                           {"label_tokens", 3},
                                           {"fill_ratio", 0.625},
                                           {"area_imbalance", 1.0},
                                           {"dropped_documents", 0},
                                           {"dropped_tokens", 0},
                                           {"cut_documents", 0},
                                           {"empty_documents", 0}}));
  EXPECT_EQ(Lines(Read(options.output)).size(), 1);
}

TEST(PackCommandTest, TextGetsItsOwnEndAndPaddingTokens) {
  const std::string folder = MakeFolder();
  WriteFile(folder, "docs/a", "ab");
  WriteFile(folder, "docs/b", "c");
  PackCommandOptions options;
  options.flags.inputs = {folder + "/docs"};
  options.flags.row_width = 6;
  options.flags.strategy = "first_fit";
  EXPECT_EQ(Lines(PackWith(options).out)[0]["input_ids"],
            json({{'a', 'b', 256, 'c', 256, 257}}));
  options.flags.no_end_token = true;
  options.flags.padding_token_id = 7;
  EXPECT_EQ(Lines(PackWith(options).out)[0]["input_ids"],
            json({{'a', 'b', 'c', 7, 7, 7}}));
}

TEST(PackCommandTest, ParityWritesWhatTheCollaterGives) {
  const std::string folder = MakeFolder();
  PackCommandOptions options = TwoDocuments(folder);
  options.flags.row_width = 4;
  options.flags.rows = 2;
  options.flags.parity = "automodel_0_7";
  options.flags.inputs.push_back(
      WriteFile(folder, "y.jsonl",
                "{\"input_ids\": [6, 7], \"labels\": [7, 8], "
                "\"loss_mask\": [1, 0]}\n"));
  const std::vector<json> lines = Lines(PackWith(options).out);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0],
            json({{"input_ids", {{1, 2, 3, 0}, {4, 5, 6, 7}}},
                  {"labels", {{2, 3, -100, -100}, {5, -100, 7, -100}}},
                  {"position_ids", {{0, 1, 2, 3}, {0, 1, 0, 1}}},
                  {"seq_lens", {{3, -1000}, {2, 2}}},
                  {"seq_lens_padded", {{4, -1000}, {2, 2}}},
                  {"qkv_format", "thd"}}));
}

TEST(PackCommandTest, StopsWhereItIsTold) {
  PackCommandOptions options = TwoDocuments(MakeFolder());
  options.flags.epochs = 0;
  options.flags.no_position_ids = true;
  options.max_batches = 5;
  const std::vector<json> lines = Lines(PackWith(options).out);
  ASSERT_EQ(lines.size(), 5);
  EXPECT_FALSE(lines[4].contains("position_ids"));
}

struct ErrorCase {
  std::string name;
  std::function<void(PackCommandOptions&)> change;
  int status;
  std::string code, reason, message;
};

class PackCommandErrorTest : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(PackCommandErrorTest, EndsWithItsStatus) {
  const std::string folder = MakeFolder();
  PackCommandOptions options = TwoDocuments(folder);
  options.output = folder + "/out.jsonl";
  GetParam().change(options);
  const Result text = PackWith(options);
  EXPECT_EQ(text.status, GetParam().status);
  EXPECT_THAT(text.out, IsEmpty());
  EXPECT_THAT(text.err, AllOf(StartsWith("cpfeed pack: "),
                              HasSubstr(GetParam().message)));
  options.json = true;
  const Result result = PackWith(options);
  EXPECT_EQ(result.status, GetParam().status);
  const json error = json::parse(result.out);
  EXPECT_EQ(error["status"], GetParam().code);
  EXPECT_EQ(error["reason"], GetParam().reason);
  EXPECT_THAT(error["message"].get<std::string>(),
              HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, PackCommandErrorTest,
    ::testing::ValuesIn(std::vector<ErrorCase>{
        {"WidthNotDivisible", [](auto& o) { o.flags.cp_size = 3; },
         kExitRefused, "INVALID_ARGUMENT", "NOT_DIVISIBLE",
         "row_width is 8; must be a multiple of 2 * cp_size = 6"},
        {"CpSize", [](auto& o) { o.flags.cp_size = 0; }, kExitRefused,
         "INVALID_ARGUMENT", "BAD_OPTION",
         "cp_size is 0; must be in [1, 1048576]"},
        {"Rows", [](auto& o) { o.flags.rows = -1; }, kExitRefused,
         "INVALID_ARGUMENT", "BAD_OPTION", "rows is -1; must be at least 1"},
        {"Strategy", [](auto& o) { o.flags.strategy = "next_fit"; },
         kExitRefused, "INVALID_ARGUMENT", "BAD_OPTION",
         "strategy is \"next_fit\""},
        {"LongDocuments", [](auto& o) { o.flags.long_documents = "keep"; },
         kExitRefused, "INVALID_ARGUMENT", "BAD_OPTION",
         "long_documents is \"keep\"; must be one of refuse, drop, cut"},
        {"RowTail", [](auto& o) { o.flags.row_tail = ""; }, kExitRefused,
         "INVALID_ARGUMENT", "BAD_OPTION",
         "row_tail is \"\"; must be one of extend, empty_slot, auto_fill"},
        {"LastBatch", [](auto& o) { o.flags.last_batch = "x"; }, kExitRefused,
         "INVALID_ARGUMENT", "BAD_OPTION",
         "last_batch is \"x\"; must be one of fill, drop"},
        {"Format", [](auto& o) { o.flags.format = "csv"; }, kExitRefused,
         "INVALID_ARGUMENT", "BAD_OPTION", "format is \"csv\""},
        {"Parity", [](auto& o) { o.flags.parity = "0.4"; }, kExitRefused,
         "INVALID_ARGUMENT", "BAD_OPTION", "parity is \"0.4\""},
        {"EndTokens",
         [](auto& o) {
           o.flags.end_token_id = 5;
           o.flags.no_end_token = true;
         },
         kExitRefused, "INVALID_ARGUMENT", "BAD_OPTION",
         "end_token_id and no_end_token are given"},
        {"MaxBatches", [](auto& o) { o.max_batches = -1; }, kExitRefused,
         "INVALID_ARGUMENT", "BAD_OPTION", "max_batches is -1"},
        {"LongDocument", [](auto& o) { o.flags.row_width = 2; }, kExitRefused,
         "INVALID_ARGUMENT", "BATCH_TOO_LARGE",
         "x.jsonl line 1: document has 3 tokens; must be at most 2"},
        {"LongSample",
         [](auto& o) {
           o.flags.row_width = 2;
           o.flags.parity = "automodel_0_4";
         },
         kExitRefused, "INVALID_ARGUMENT", "ValueError",
         "document has 3 tokens; must be at most 2"},
        {"NoInput", [](auto& o) { o.flags.inputs = {"/nowhere"}; },
         kExitRefused, "NOT_FOUND", "", "cannot open /nowhere"},
        {"NoTokenizer", [](auto& o) { o.flags.tokenizer = "/nowhere"; },
         kExitRefused, "NOT_FOUND", "", "cannot open /nowhere"},
        {"Output", [](auto& o) { o.output = "/nowhere/out"; }, kExitRefused,
         "INVALID_ARGUMENT", "BAD_OPTION", "output /nowhere/out cannot be"},
        {"FullDisk", [](auto& o) { o.output = "/dev/full"; }, kExitFailure,
         "INTERNAL", "", "cannot write"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(PackCommandTest, FlagsReachTheOptions) {
  const std::string folder = MakeFolder();
  CLI::App app;
  std::function<int()> run;
  RegisterPack(app, run);
  const std::string input = WriteFile(folder, "x.jsonl", "[1,2,3,4]\n[5]\n");
  const std::string output = folder + "/out";
  app.parse("pack " + input +
            " --row_width 3 --rows 2 --long_documents cut "
            "--end_token_id 9 --padding_token_id 8 --row_tail empty_slot "
            "--strategy first_fit --output " +
            output + " --json");
  ASSERT_TRUE(run);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run(), kExitOk);
  EXPECT_EQ(json::parse(::testing::internal::GetCapturedStdout())["documents"],
            2);
  // 1 2 3 | 4 9 and one free, too little for 5 9.
  const std::vector<json> lines = Lines(Read(output));
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[0]["input_ids"], json({{1, 2, 3}, {4, 9, 8}}));
  EXPECT_EQ(lines[0]["labels"], json({{2, 3, 4}, {9, -100, -100}}));
  EXPECT_EQ(lines[0]["seq_lens"], json({{3}, {2, 0}}));
  EXPECT_EQ(lines[0]["seq_lens_padded"], json({{3}, {2, 1}}));
  EXPECT_EQ(lines[1]["input_ids"], json({{5, 9, 8}, {8, 8, 8}}));
}

TEST(PackCommandTest, HelpHasExamplesAndExitStatuses) {
  CLI::App app;
  std::function<int()> run;
  RegisterPack(app, run);
  EXPECT_THAT(app.get_subcommand("pack")->help(),
              AllOf(HasSubstr("cpfeed pack docs --row_width"),
                    HasSubstr("Exit status: 0; 2 where")));
}

}  // namespace
}  // namespace cpfeed
