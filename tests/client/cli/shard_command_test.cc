#include "client/cli/shard_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/json_values.h"
#include "client/cli/shard_flags.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

using ::testing::HasSubstr;

// Rows of 8: slots {4, 4}, real {3, 4}.
constexpr char kBatch[] = R"({
  "input_ids": [[11, 12, 13, 0, 21, 22, 23, 24]],
  "labels": [[12, 13, -100, -100, 22, 23, 24, -100]],
  "loss_mask": [[1.0, 1.0, 0.5, 0.0, 1.0, 1.0, 1.0, 0.0]],
  "seq_lens": [[3, 4]], "seq_lens_padded": [[4, 4]], "step": 9})";

struct Outcome {
  int exit_status = 0;
  std::string out;
  std::string err;
};

Outcome RunWith(const ShardFlags& flags, const std::string& input = kBatch,
                const ShardSource& source = ShardOffline) {
  std::istringstream in(input);
  std::ostringstream out, err;
  const int exit_status = RunShard(flags, source, in, out, err);
  return {.exit_status = exit_status, .out = out.str(), .err = err.str()};
}

TEST(RunShardTest, WritesEverythingAboutTheShards) {
  const Outcome outcome = RunWith({.input = "-", .cp_size = "2", .json = true});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["status"], "OK");
  EXPECT_EQ(result["num_label_tokens_global"], 5);
  ASSERT_EQ(result["chunks"].size(), 1);
  const Json& chunk = result["chunks"][0];
  EXPECT_EQ(chunk["total_tokens"], 8);
  EXPECT_EQ(chunk["layout"], "HEAD_TAIL_PER_SEQUENCE");
  EXPECT_EQ(chunk["cu_seqlens"].dump(), "[0,3,7]");
  EXPECT_EQ(chunk["cu_seqlens_padded"].dump(), "[0,4,8]");
  EXPECT_EQ(chunk["max_seqlen"], 4);
  EXPECT_EQ(chunk["max_seqlen_padded"], 4);
  EXPECT_THAT(chunk["plan_digest"].get<std::string>(),
              ::testing::MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(chunk["metrics"]["max_tokens"], 4);
  EXPECT_EQ(chunk["metrics"]["padding_tokens"], 1);
  ASSERT_EQ(chunk["ranks"].size(), 2);
  EXPECT_EQ(chunk["ranks"][0].dump(),
            R"({"rank":0,"index":[0,3,4,7],"source_index":[0,3,4,7],)"
            R"("cu_seqlens":[0,1,3],"cu_seqlens_padded":[0,2,4],)"
            R"("segments":[[0,0,1],[0,3,1],[1,0,1],[1,3,1]],)"
            R"("num_label_tokens":2,"input_ids":[11,0,21,24],)"
            R"("labels":[12,-100,22,-100],"position_ids":[0,3,0,3],)"
            R"("padding_mask":[false,true,false,false],)"
            R"("loss_mask":[1.0,0.0,1.0,0.0],"step":9})");
}

TEST(RunShardTest, PersonsGetATable) {
  const Outcome outcome = RunWith({.input = "-", .cp_size = "2"});
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("chunk 0: 8 tokens in 2 sequences, "
                                     "HEAD_TAIL_PER_SEQUENCE, plan "));
  EXPECT_THAT(outcome.out, HasSubstr("0[0,1) 0[3,4) 1[0,1) 1[3,4)"));
  EXPECT_THAT(outcome.out, HasSubstr("labels in all: 5"));
}

TEST(RunShardTest, ParityGivesUpstreamsResultInItsForm) {
  const std::string batch = R"({
    "input_ids": [[11, 12, 0, 0], [21, 22, 23, 0]],
    "labels": [[12, -100, -100, -100], [22, 23, -100, -100]],
    "position_ids": [[0, 1, 2, 3], [0, 1, 2, 3]],
    "seq_lens": [[2], [3]], "seq_lens_padded": [[4], [4]]})";
  const Outcome outcome = RunWith(
      {.input = "-", .cp_size = "2", .parity = "automodel_0_7", .json = true},
      batch);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["status"], "OK");
  EXPECT_EQ(result["parity"], "automodel_0_7");
  ASSERT_EQ(result["ranks"].size(), 2);
  EXPECT_EQ(result["ranks"][1]["input_ids"].dump(),
            R"({"dt":"i64","sh":[4],"v":[12,0,22,23]})");
  EXPECT_EQ(result["ranks"][1]["cu_seqlens"].dump(),
            R"({"dt":"i32","sh":[3],"v":[0,4,8]})");
  EXPECT_EQ(result["ranks"][1]["padding_mask"].dump(),
            R"({"dt":"bool","sh":[4],"v":[0,1,0,0]})");
  EXPECT_EQ(result["ranks"][1]["cp_rank"], 1);
  EXPECT_EQ(result["ranks"][1]["local_indices"].dump(),
            R"({"dt":"i32","sh":[4],"v":[1,2,5,6]})");
}

TEST(RunShardTest, RaggedLengthsAreFilledUpForParity) {
  const std::string batch = R"({
    "input_ids": [[1, 2, 3, 4], [5, 6, 7, 8]],
    "labels": [[1, 2, 3, 4], [5, 6, 7, 8]],
    "position_ids": [[0, 1, 0, 1], [0, 1, 2, 3]],
    "seq_lens": [[2, 2], [4]], "seq_lens_padded": [[2, 2], [4]]})";
  const Outcome outcome = RunWith({.input = "-",
                                   .cp_size = "1",
                                   .num_chunks = "2",
                                   .parity = "automodel_0_4",
                                   .json = true},
                                  batch);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  EXPECT_EQ(Json::parse(outcome.out)["ranks"][0]["cu_seqlens"].dump(),
            R"({"dt":"i32","sh":[2,3],"v":[0,2,4,0,4,-1000]})");
}

TEST(RunShardTest, ExceptionOfUpstreamIsTheReason) {
  const Outcome outcome = RunWith(
      {.input = "-", .cp_size = "2", .parity = "automodel_0_4", .json = true});
  EXPECT_EQ(outcome.exit_status, 2);
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["status"], "INVALID_ARGUMENT");
  EXPECT_EQ(result["reason"], "KeyError");
  EXPECT_THAT(result["message"].get<std::string>(), HasSubstr("position_ids"));
}

// Upstream's own example, which its release fails on for want of positions.
TEST(RunShardTest, OneRowWithoutPositionsOrRanks) {
  const Outcome outcome =
      RunWith({.input = "-", .cp_size = "1", .json = true},
              R"({"input_ids": [[1, 2, 3, 4]], "labels": [[2, 3, 4, 5]],
              "seq_lens": [[4]], "seq_lens_padded": [[4]]})");
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  const Json rank = Json::parse(outcome.out)["chunks"][0]["ranks"][0];
  EXPECT_EQ(rank["input_ids"].dump(), "[1,2,3,4]");
  EXPECT_EQ(rank["position_ids"].dump(), "[0,1,2,3]");
}

TEST(RunShardTest, ErrorIsTextWithoutJson) {
  const Outcome outcome = RunWith({.input = "-", .cp_size = "4"});
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("(NOT_DIVISIBLE)"));
}

TEST(RunShardTest, SourceMayBeAServer) {
  const ShardSource unreachable = [](const ShardRequest& request) {
    EXPECT_EQ(request.cp_size, 2);
    return MakeError(absl::StatusCode::kUnavailable, "", "nobody there");
  };
  const Outcome outcome = RunWith({.input = "-", .cp_size = "2", .json = true},
                                  kBatch, unreachable);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_EQ(Json::parse(outcome.out)["status"], "UNAVAILABLE");
}

struct BadRun {
  std::string name;
  ShardFlags flags;
  std::string input;
  std::string status;
  std::string reason;
  std::string message_part;
};

class RunShardErrorTest : public ::testing::TestWithParam<BadRun> {};

TEST_P(RunShardErrorTest, IsAnsweredInJsonWithStatusTwo) {
  ShardFlags flags = GetParam().flags;
  flags.json = true;
  const Outcome outcome = RunWith(flags, GetParam().input);
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_EQ(outcome.err, "");
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["status"], GetParam().status);
  EXPECT_EQ(result["reason"], GetParam().reason);
  EXPECT_THAT(result["message"].get<std::string>(),
              HasSubstr(GetParam().message_part));
}

constexpr char kInvalid[] = "INVALID_ARGUMENT";

INSTANTIATE_TEST_SUITE_P(
    Flags, RunShardErrorTest,
    ::testing::ValuesIn(std::vector<BadRun>{
        {"NoInput",
         {.cp_size = "2"},
         kBatch,
         kInvalid,
         kBadOption,
         "input is missing"},
        {"NoCpSize",
         {.input = "-"},
         kBatch,
         kInvalid,
         kBadOption,
         "cp_size is missing"},
        {"CpSizeZero",
         {.input = "-", .cp_size = "0"},
         kBatch,
         kInvalid,
         kBadOption,
         "cp_size is 0"},
        {"CpSizeHuge",
         {.input = "-", .cp_size = "4294967298"},
         kBatch,
         kInvalid,
         kBadOption,
         "cp_size is 4294967298"},
        {"CpSizeBeyondInt64",
         {.input = "-", .cp_size = "99999999999999999999"},
         kBatch,
         kInvalid,
         kBadOption,
         "must be an integer of 64 bits"},
        {"CpSizeText",
         {.input = "-", .cp_size = "two"},
         kBatch,
         kInvalid,
         kBadOption,
         "cp_size is \"two\"; must be an integer"},
        {"NumChunksZero",
         {.input = "-", .cp_size = "2", .num_chunks = "0"},
         kBatch,
         kInvalid,
         kBadOption,
         "num_chunks is 0"},
        {"NumChunksDoNotDivide",
         {.input = "-", .cp_size = "2", .num_chunks = "2"},
         kBatch,
         kInvalid,
         kBadOption,
         "num_chunks is 2"},
        {"LayoutUnknown",
         {.input = "-", .cp_size = "2", .layout = "spiral"},
         kBatch,
         kInvalid,
         kBadOption,
         "spiral"},
        {"StripeWidthZero",
         {.input = "-",
          .cp_size = "2",
          .layout = "striped",
          .stripe_width = "0"},
         kBatch,
         kInvalid,
         kBadOption,
         "stripe_width"},
        {"ChunkSizeNegative",
         {.input = "-",
          .cp_size = "2",
          .layout = "chunk_greedy",
          .chunk_size = "-1"},
         kBatch,
         kInvalid,
         kBadOption,
         "chunk_size"},
        {"SentinelNotNegative",
         {.input = "-", .cp_size = "2", .seq_lens_padding_value = "5"},
         kBatch,
         kInvalid,
         kBadOption,
         "seq_lens_padding_value is 5"},
        {"ParityUnknown",
         {.input = "-", .cp_size = "2", .parity = "automodel_0_5"},
         kBatch,
         kInvalid,
         kBadOption,
         "automodel_0_5"},
        {"ParityWithAutoPad",
         {.input = "-",
          .cp_size = "2",
          .parity = "automodel_0_7",
          .auto_pad = true},
         kBatch,
         kInvalid,
         kBadOption,
         "auto_pad is given"},
        {"ParityWithLayout",
         {.input = "-",
          .cp_size = "2",
          .layout = "striped",
          .parity = "automodel_0_7"},
         kBatch,
         kInvalid,
         kBadOption,
         "layout is given"},
        {"ParityWithServer",
         {.input = "-",
          .cp_size = "2",
          .parity = "automodel_0_7",
          .server = "localhost:1"},
         kBatch,
         kInvalid,
         kBadOption,
         "server is given"},
    }),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Input, RunShardErrorTest,
    ::testing::ValuesIn(std::vector<BadRun>{
        {"NoFile",
         {.input = "/no/such/file", .cp_size = "2"},
         "",
         "NOT_FOUND",
         "FILE_NOT_FOUND",
         "/no/such/file cannot be read"},
        {"NoJson",
         {.input = "-", .cp_size = "2"},
         "{\"input_ids\": [[1,",
         kInvalid,
         kBatchMalformed,
         "input is no JSON"},
        {"NumberTooLarge",
         {.input = "-", .cp_size = "2"},
         "{\"x\": 1e999}",
         kInvalid,
         kBatchMalformed,
         "input is no JSON"},
        {"NoUtf8",
         {.input = "-", .cp_size = "2"},
         "{\"x\": \"\xff\"}",
         kInvalid,
         kBatchMalformed,
         "input is no JSON"},
        {"Empty",
         {.input = "-", .cp_size = "2"},
         "",
         kInvalid,
         kBatchMalformed,
         "input is no JSON"},
        {"TooDeep",
         {.input = "-", .cp_size = "2"},
         "{\"x\": [\"]]]]\\\"\", " + std::string(100000, '['),
         kInvalid,
         kBatchMalformed,
         "nested deeper than 64"},
        {"NoObject",
         {.input = "-", .cp_size = "2"},
         "[]",
         kInvalid,
         kBatchMalformed,
         "input is array"},
        {"QkvFormat",
         {.input = "-", .cp_size = "2"},
         "{\"qkv_format\": \"sbhd\"}",
         kInvalid,
         kBadOption,
         "qkv_format is sbhd"},
        {"QkvFormatInParity",
         {.input = "-", .cp_size = "2", .parity = "automodel_0_4"},
         "{\"qkv_format\": \"sbhd\"}",
         kInvalid,
         "ValueError",
         "qkv_format is sbhd"},
        {"NoLabels",
         {.input = "-", .cp_size = "2"},
         "{\"input_ids\": [[1, 2, 3, 4]]}",
         kInvalid,
         kBatchMalformed,
         "labels are missing"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(RegisterShardTest, FlagsReachTheServerSource) {
  CLI::App app;
  std::function<int()> run;
  std::string seen_address;
  std::string seen_ca;
  RegisterShard(app, run,
                [&](const std::string& address,
                    const ChannelSecurity& security) -> ShardSource {
                  seen_address = address;
                  seen_ca = security.tls_ca;
                  return [](const ShardRequest&) {
                    return MakeError(absl::StatusCode::kUnavailable, "",
                                     "nobody there");
                  };
                });
  app.parse(
      "shard --input /no/such/file --cp_size -3 --server host:1 --tls_ca "
      "ca.pem "
      "--json",
      false);
  ASSERT_TRUE(run);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run(), 2);
  EXPECT_EQ(seen_ca, "ca.pem");
  const Json result = Json::parse(::testing::internal::GetCapturedStdout());
  EXPECT_THAT(result["message"].get<std::string>(), HasSubstr("cp_size is -3"));
  EXPECT_EQ(seen_address, "host:1");
}

}  // namespace
}  // namespace cpfeed
