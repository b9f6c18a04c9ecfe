#include "client/cli/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/command_status.h"

namespace cpfeed {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanCommandTest : public ::testing::Test {
 protected:
  // Options for these lengths in a file of this test.
  PlanOptions For(const std::string& lengths, int64_t cp_size) const {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    PlanOptions options;
    std::string name = info->name();
    std::replace(name.begin(), name.end(), '/', '_');
    options.lengths = ::testing::TempDir() + "/" + name + ".txt";
    std::ofstream(options.lengths) << lengths;
    options.cp_size = cp_size;
    return options;
  }

  // Runs with --json and reads the answer.
  json RunJson(PlanOptions options, int exit_status) const {
    options.json = true;
    std::ostringstream out;
    EXPECT_EQ(RunPlan(options, out), exit_status) << out.str();
    return json::parse(out.str());
  }
};

TEST_F(PlanCommandTest, PrintsMetricsAndRanksAsJson) {
  // Position:  0 1 2 3 4 5 6 7 | 8 9 10 11
  // Holder:    0 0 1 1 1 1 0 0 | 0 1  1  0
  PlanOptions options = For("8\n4\n", 2);
  options.segments = true;
  options.verify = true;
  const json answer = RunJson(options, kExitOk);
  ASSERT_EQ(answer["layouts"].size(), 1);
  const json& layout = answer["layouts"][0];
  EXPECT_EQ(layout["layout"], "HEAD_TAIL_PER_SEQUENCE");
  EXPECT_EQ(layout["status"], "OK");
  EXPECT_EQ(layout["verified"], true);
  EXPECT_EQ(layout["digest"].get<std::string>().size(), 16);
  EXPECT_GE(layout["plan_ms"].get<double>(), 0);
  const json& metrics = layout["metrics"];
  EXPECT_EQ(metrics["max_tokens"], 6);
  EXPECT_EQ(metrics["max_area"], 23);
  EXPECT_EQ(metrics["area_imbalance"], 1.0);
  EXPECT_EQ(metrics["padding_tokens"], 0);
  EXPECT_EQ(metrics["max_kv_rows_received"], 6);
  EXPECT_EQ(metrics["mean_kv_rows_received"], 4.5);
  EXPECT_EQ(metrics["max_kv_rows_sent"], 6);
  EXPECT_EQ(metrics["max_tiles"], 4);
  EXPECT_EQ(metrics["unsharded_tiles"], 2);
  EXPECT_EQ(metrics["tile_inflation"], 3.0);
  EXPECT_EQ(metrics["max_slices"], 4);
  EXPECT_EQ(metrics["mean_slices"], 3.0);
  EXPECT_EQ(layout["ranks"][0], json::parse(R"({
      "rank": 0, "tokens": 6, "padding_rows": 0, "area": 23, "tiles": 4,
      "kv_rows_received": 6, "kv_rows_sent": 3, "kv_rows_sent_once": 3,
      "kv_fan_out": 1, "kv_peers": 1, "slices": 4,
      "segments": [[0, 0, 2], [0, 6, 2], [1, 0, 1], [1, 3, 1]]})"));
  EXPECT_EQ(layout["ranks"][1]["segments"],
            json::parse("[[0, 2, 4], [1, 1, 2]]"));
}

TEST_F(PlanCommandTest, BoundsStandBesideTheMetrics) {
  PlanOptions options = For("[8, 4]", 2);
  options.layouts = {"balanced"};
  options.objective = "area";
  const json layout = RunJson(options, kExitOk)["layouts"][0];
  EXPECT_EQ(layout["objective"], "AREA");
  const json& bounds = layout["bounds"];
  EXPECT_EQ(bounds["max_tokens"], 6);
  EXPECT_EQ(bounds["max_kv_rows_received"], 2);  // 8 rows, 6 at home.
  EXPECT_EQ(bounds["max_slices"], 1);
  for (const auto& [name, bound] : bounds.items()) {
    if (name == "mean_kv_rows_received_band") continue;
    EXPECT_GE(layout["metrics"][name].get<double>(), bound.get<double>())
        << name;
  }
}

TEST_F(PlanCommandTest, CountsUnderTheMask) {
  PlanOptions options = For("[8]", 2);
  options.layouts = {"contiguous"};
  options.mask = "window";
  options.window_left = 1;
  const json metrics = RunJson(options, kExitOk)["layouts"][0]["metrics"];
  EXPECT_EQ(metrics["max_area"], 8);  // Rank 1: four rows that see two keys.
  EXPECT_EQ(metrics["max_kv_rows_received"], 1);
}

TEST_F(PlanCommandTest, AutoIsTheBalancedPlanner) {
  PlanOptions options = For("[7, 5]", 5);
  options.layouts = {"auto"};
  const json layout = RunJson(options, kExitOk)["layouts"][0];
  EXPECT_EQ(layout["layout"], "BALANCED");
  EXPECT_EQ(layout["metrics"]["max_tokens"], 3);
}

struct BadFlag {
  std::string name;
  std::function<void(PlanOptions&)> spoil;
  std::string message;
};

class BadPlanFlagTest : public PlanCommandTest,
                        public ::testing::WithParamInterface<BadFlag> {};

TEST_P(BadPlanFlagTest, IsRefusedByName) {
  PlanOptions options = For("[8]", 2);
  GetParam().spoil(options);
  const json answer = RunJson(options, kExitRefused);
  EXPECT_EQ(answer["reason"], "BAD_OPTION");
  EXPECT_THAT(answer["message"].get<std::string>(),
              HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadPlanFlagTest,
    ::testing::ValuesIn(std::vector<BadFlag>{
        {"Objective", [](auto& o) { o.objective = "best"; },
         "objective is \"best\"; must be auto, area or tile"},
        {"Mask", [](auto& o) { o.mask = "half"; },
         "mask is \"half\"; must be causal, full or window"},
        {"WindowWithoutSize", [](auto& o) { o.mask = "window"; },
         "window_left is missing and mask is window"},
        {"SizeWithoutWindow", [](auto& o) { o.window_left = 3; },
         "window_left is given and mask is causal"},
        {"NegativeWindow",
         [](auto& o) {
           o.mask = "window";
           o.window_left = -1;
         },
         "window_left is -1; must be at least 0"},
        {"NegativeCost", [](auto& o) { o.linear_cost = -1; },
         "linear_cost is -1; must be in [0, "},
        {"NoRanks", [](auto& o) { o.cp_size = 0; },
         "cp_size is 0; must be in [1, 65536]"},
    }),
    [](const auto& info) { return info.param.name; });

TEST_F(PlanCommandTest, LeavesSegmentsOutUnlessAskedFor) {
  const json answer = RunJson(For("8", 2), kExitOk);
  EXPECT_FALSE(answer["layouts"][0]["ranks"][0].contains("segments"));
  EXPECT_FALSE(answer["layouts"][0].contains("verified"));
}

TEST_F(PlanCommandTest, ComparesLayoutsAndShowsWhichRefuse) {
  PlanOptions options = For("[4, 8, 6, 10]", 2);
  options.layouts = {"head_tail_per_sequence", "CONTIGUOUS", "striped"};
  const json layouts = RunJson(options, kExitOk)["layouts"];
  ASSERT_EQ(layouts.size(), 3);
  EXPECT_EQ(layouts[0]["layout"], "HEAD_TAIL_PER_SEQUENCE");
  EXPECT_EQ(layouts[0]["status"], "INVALID_ARGUMENT");
  EXPECT_EQ(layouts[0]["reason"], "NOT_DIVISIBLE");
  EXPECT_THAT(layouts[0]["message"].get<std::string>(),
              AllOf(HasSubstr("row 0"), HasSubstr("sequence 2: 6"),
                    HasSubstr("sequence 3: 10"), HasSubstr("multiple of 4")));
  EXPECT_FALSE(layouts[0].contains("metrics"));
  EXPECT_EQ(layouts[1]["status"], "OK");
  EXPECT_EQ(layouts[2]["metrics"]["max_slices"], 14);
}

TEST_F(PlanCommandTest, RefusalOfTheOnlyLayoutIsTheAnswer) {
  const json answer = RunJson(For("[6]", 2), kExitRefused);
  EXPECT_EQ(answer["status"], "INVALID_ARGUMENT");
  EXPECT_EQ(answer["reason"], "NOT_DIVISIBLE");
  EXPECT_THAT(answer["message"].get<std::string>(), HasSubstr("sequence 0: 6"));
  EXPECT_FALSE(answer.contains("layouts"));
}

TEST_F(PlanCommandTest, RefusalOfAllLayoutsIsNoSuccess) {
  PlanOptions options = For("[6]", 4);
  options.layouts = {"head_tail_per_sequence", "contiguous"};
  const json layouts = RunJson(options, kExitRefused)["layouts"];
  EXPECT_EQ(layouts[1]["reason"], "NOT_DIVISIBLE");
}

TEST_F(PlanCommandTest, PadsWhereAskedTo) {
  PlanOptions options = For("[3, 5]", 2);
  options.auto_pad = true;
  options.layouts = {"head_tail_per_sequence", "head_tail_per_row", "ptrr"};
  const json layouts = RunJson(options, kExitOk)["layouts"];
  EXPECT_EQ(layouts[0]["metrics"]["padding_tokens"], 4);
  EXPECT_EQ(layouts[1]["metrics"]["padding_tokens"], 0);
  EXPECT_EQ(layouts[2]["metrics"]["padding_tokens"], 248);
}

TEST_F(PlanCommandTest, GivesBytesForHeads) {
  PlanOptions options = For("[8]", 2);
  options.num_kv_heads = 8;
  options.head_dim = 128;
  const json layout = RunJson(options, kExitOk)["layouts"][0];
  // Keys and values of 8 heads of 128 elements of 2 bytes.
  EXPECT_EQ(layout["ranks"][0]["kv_bytes_received"], 4 * 4096);
  EXPECT_EQ(layout["metrics"]["max_kv_bytes_received"], 4 * 4096);
  EXPECT_EQ(layout["metrics"]["mean_kv_bytes_received"], 3 * 4096.0);
}

TEST_F(PlanCommandTest, LayoutParametersCount) {
  PlanOptions options = For("[5, 7]", 2);
  options.layouts = {"striped"};
  options.stripe_width = 3;
  options.segments = true;
  EXPECT_EQ(RunJson(options, kExitOk)["layouts"][0]["ranks"][0]["segments"],
            json::parse("[[0, 0, 3], [1, 1, 3]]"));
  options = For("[7]", 3);
  options.layouts = {"contiguous"};
  options.uneven = true;
  EXPECT_EQ(RunJson(options, kExitOk)["layouts"][0]["metrics"]["max_tokens"],
            3);
  options = For("[8]", 2);
  options.layouts = {"chunk_greedy"};
  options.chunk_size = 2;
  EXPECT_EQ(RunJson(options, kExitOk)["layouts"][0]["metrics"]["max_area"], 18);
}

struct BadOptions {
  std::string name;
  std::string lengths;
  std::function<void(PlanOptions&)> change;
  std::string reason;
  std::string message;
};

class BadPlanOptionsTest : public PlanCommandTest,
                           public ::testing::WithParamInterface<BadOptions> {};

TEST_P(BadPlanOptionsTest, AreRefusedAsJsonWithStatusTwo) {
  std::ofstream(::testing::TempDir() + "/bad_" + GetParam().name)
      << GetParam().lengths;
  PlanOptions options;
  options.lengths = ::testing::TempDir() + "/bad_" + GetParam().name;
  options.cp_size = 2;
  GetParam().change(options);
  const json answer = RunJson(options, kExitRefused);
  EXPECT_EQ(answer["status"], "INVALID_ARGUMENT");
  EXPECT_EQ(answer["reason"], GetParam().reason);
  EXPECT_THAT(answer["message"].get<std::string>(),
              HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadPlanOptionsTest,
    ::testing::ValuesIn(std::vector<BadOptions>{
        {"NoFile", "",
         [](PlanOptions& options) { options.lengths = "/does/not/exist"; },
         "BAD_OPTION", "/does/not/exist: cannot be read"},
        {"NoNumbers", "one", [](PlanOptions&) {}, "BATCH_MALFORMED",
         "line 1 is \"one\""},
        {"Negative", "[8, -8]", [](PlanOptions&) {}, "LENGTHS_INCONSISTENT",
         "row 0: sequence 1: real length is -8"},
        {"CpSize", "8", [](PlanOptions& options) { options.cp_size = 0; },
         "BAD_OPTION", "cp_size is 0"},
        {"HugeCpSize", "8",
         [](PlanOptions& options) { options.cp_size = int64_t{1} << 33; },
         "BAD_OPTION", "cp_size is 8589934592"},
        {"Layout", "8",
         [](PlanOptions& options) { options.layouts = {"zigzag"}; },
         "BAD_OPTION", "layout is \"zigzag\""},
        {"StripeWidth", "8",
         [](PlanOptions& options) {
           options.layouts = {"striped"};
           options.stripe_width = 0;
         },
         "BAD_OPTION", "stripe_width is 0"},
        {"HeadDimAlone", "8",
         [](PlanOptions& options) { options.head_dim = 128; }, "BAD_OPTION",
         "num_kv_heads or head_dim is missing"},
        {"NoHeads", "8",
         [](PlanOptions& options) {
           options.num_kv_heads = 0;
           options.head_dim = 128;
         },
         "BAD_OPTION", "num_kv_heads is 0; must be in [1, 1024]"},
        {"TooManyTokens", "[2147483647, 1]", [](PlanOptions&) {},
         "BATCH_TOO_LARGE", "row 0: sequence 1"},
    }),
    [](const auto& info) { return info.param.name; });

TEST_F(PlanCommandTest, TableIsForPeople) {
  PlanOptions options = For("[[8, 4], [6, 6]]", 2);
  options.layouts = {"head_tail_per_sequence", "contiguous"};
  std::ostringstream out;
  EXPECT_EQ(RunPlan(options, out), kExitOk);
  EXPECT_THAT(
      out.str(),
      AllOf(HasSubstr("sequences 4, rows 2, tokens 24, padding 0, cp_size 2\n"),
            HasSubstr("\nHEAD_TAIL_PER_SEQUENCE  refused: NOT_DIVISIBLE: row "
                      "1: sequence 0: 6, sequence 1: 6 padded tokens"),
            HasSubstr("\nCONTIGUOUS                  12"),
            Not(HasSubstr("rank"))));
}

TEST_F(PlanCommandTest, TableOfOneLayoutListsItsRanks) {
  PlanOptions options = For("[8]", 2);
  options.segments = true;
  options.verify = true;
  std::ostringstream out;
  EXPECT_EQ(RunPlan(options, out), kExitOk);
  EXPECT_THAT(
      out.str(),
      AllOf(HasSubstr("verified\n"),
            HasSubstr("\n"
                      "rank  tokens  padding  area  tiles  kv rows in  kv rows "
                      "out  slices\n"
                      "0          4        0    18      2           4          "
                      "  2       2\n"
                      "1          4        0    18      1           2          "
                      "  4       1\n"),
            HasSubstr("rank 0: 0[0,2) 0[6,8)\nrank 1: 0[2,6)\n")));
}

class RegisterPlanTest : public PlanCommandTest {
 protected:
  // Parses a command line behind the program's name.
  std::function<int()> Parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());
    CLI::App app;
    std::function<int()> run;
    RegisterPlan(app, run);
    app.parse(arguments);
    return run;
  }
};

TEST_F(RegisterPlanTest, TakesItsOptions) {
  const std::string path = For("[8, 8]", 2).lengths;
  const std::function<int()> run =
      Parse({"plan", "--lengths", path, "--cp_size", "2", "--layout",
             "contiguous,PTRR", "--auto_pad", "--verify", "--segments",
             "--num_kv_heads", "2", "--head_dim", "4", "--json"});
  ASSERT_TRUE(run);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run(), kExitOk);
  const json answer = json::parse(::testing::internal::GetCapturedStdout());
  ASSERT_EQ(answer["layouts"].size(), 2);
  EXPECT_EQ(answer["layouts"][1]["layout"], "PTRR");
  EXPECT_EQ(answer["layouts"][1]["verified"], true);
  EXPECT_EQ(answer["layouts"][1]["metrics"]["padding_tokens"], 240);
  EXPECT_TRUE(answer["layouts"][0]["ranks"][0].contains("kv_bytes_received"));
}

TEST_F(RegisterPlanTest, ErrorsGoToTheErrorStream) {
  const std::function<int()> run =
      Parse({"plan", "--lengths", For("[6]", 2).lengths, "--cp_size", "2"});
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run(), kExitRefused);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("cpfeed plan: row 0: sequence 0: 6"));
}

TEST_F(RegisterPlanTest, DashIsAValue) {
  const std::function<int()> run =
      Parse({"plan", "--lengths", "-", "--cp_size", "2"});
  EXPECT_TRUE(run);
}

TEST_F(RegisterPlanTest, RefusesUnknownAndMissingOptions) {
  EXPECT_THROW(Parse({"plan", "--cp_size", "2"}), CLI::ParseError);
  EXPECT_THROW(Parse({"plan", "--lengths", "-"}), CLI::ParseError);
  EXPECT_THROW(Parse({"plan", "--lengths", "-", "--cp_size", "two"}),
               CLI::ParseError);
  EXPECT_THROW(
      Parse({"plan", "--lengths", "-", "--cp_size", "2", "--layouts", "ptrr"}),
      CLI::ParseError);
}

}  // namespace
}  // namespace cpfeed
