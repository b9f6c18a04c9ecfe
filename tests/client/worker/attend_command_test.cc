#include "client/worker/attend_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/testing/golden.h"

namespace cpfeed::testing {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Outcome {
  int exit_status = 0;
  std::string out;
  std::string err;

  json result() const { return json::parse(out); }
};

Outcome RunText(CaseFlags flags, const std::string& input) {
  flags.input = "-";
  std::istringstream in(input);
  std::ostringstream out, err;
  const int exit_status = RunAttend(flags, in, out, err);
  return {exit_status, out.str(), err.str()};
}

Outcome RunJson(CaseFlags flags, const json& input) {
  flags.json = true;
  return RunText(flags, input.dump());
}

// One sequence of 4, one head of one column.
json SmallCase() {
  return {{"q", {{{1}}, {{0}}, {{1}}, {{2}}}},
          {"k", {{{1}}, {{0}}, {{-1}}, {{1}}}},
          {"v", {{{1}}, {{2}}, {{3}}, {{4}}}},
          {"dout", {{{1}}, {{1}}, {{1}}, {{1}}}},
          {"kind", "causal"},
          {"scale", 1.0},
          {"seq_lens", {4}}};
}

// The numbers of nested lists, in order; null is -inf.
void Flatten(const json& value, std::vector<double>& into) {
  if (value.is_array()) {
    for (const json& item : value) Flatten(item, into);
  } else {
    into.push_back(value.is_null() ? -std::numeric_limits<double>::infinity()
                                   : value.get<double>());
  }
}

double Difference(const json& a, const json& b) {
  std::vector<double> x, y;
  Flatten(a, x);
  Flatten(b, y);
  EXPECT_EQ(x.size(), y.size());
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i]) most = std::max(most, std::abs(x[i] - y[i]));
  }
  return most;
}

TEST(RunAttendTest, GivesNumbersWorkedByHand) {
  for (const std::string transport : {"loopback", "gloo"}) {
    const Outcome outcome =
        RunJson({.ranks = "2", .transport = transport}, SmallCase());
    ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
    const json result = outcome.result();
    EXPECT_EQ(result["status"], "OK");
    const auto near = [&](const char* key, const std::vector<double>& must) {
      EXPECT_LE(Difference(result[key], must), 1e-6) << key;
    };
    near("out", {1, 1.5, 1.42479, 2.472832});
    near("dq", {0, -0.25, -0.424405, 0.020746});
    near("dk", {-1.650341, 0.081345, 0.150784, 1.418213});
    near("dv", {2.629569, 0.807568, 0.098535, 0.464328});
    EXPECT_LE(result["max_difference"].get<double>(), 1e-6);
    // 2 tokens of the other rank, k and v, 4 bytes each.
    EXPECT_THAT(result["bytes_received"], ElementsAre(16, 16));
    EXPECT_THAT(result["lse_bytes_received"], ElementsAre(0, 0));
    // And their gradients.
    EXPECT_THAT(result["backward_bytes_received"], ElementsAre(32, 32));
  }
}

class AttendGoldenTest : public ::testing::TestWithParam<json> {};
INSTANTIATE_TEST_SUITE_P(Cases, AttendGoldenTest,
                         ::testing::ValuesIn(GoldenCases("attention.json")),
                         GoldenId);

TEST_P(AttendGoldenTest, PlannedAgreesAtEveryNumberOfRanks) {
  for (const int ranks : GetParam()["cp_sizes"]) {
    const Outcome outcome = RunJson({.ranks = std::to_string(ranks),
                                     .layout = "head_tail_per_sequence",
                                     .exchange = "planned",
                                     .dtype = "float64"},
                                    GetParam());
    ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
    const json result = outcome.result();
    for (const char* const key : {"out", "lse", "dq", "dk", "dv"}) {
      EXPECT_LE(Difference(result[key], GetParam()[key]), 1e-11) << key;
    }
    EXPECT_LE(result["max_difference"].get<double>(), 1e-12);
  }
}

TEST(RunAttendTest, RowsWithoutKeysHaveNullLse) {
  json input = SmallCase();
  input["seq_lens"] = {3};
  input["seq_lens_padded"] = {4};
  const json result = RunJson({.ranks = "2"}, input).result();
  EXPECT_TRUE(result["lse"][3][0].is_null());
  EXPECT_EQ(result["out"][3][0][0], 0);
  EXPECT_EQ(result["dk"][3][0][0], 0);
}

TEST(RunAttendTest, WithoutDoutThereAreNoGradients) {
  json input = SmallCase();
  input.erase("dout");
  const Outcome outcome = RunJson({.ranks = "2"}, input);
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_FALSE(outcome.result().contains("dq"));
}

// A row of 8 without lengths is one sequence, and rows may have their own.
TEST(RunAttendTest, LengthsMayBeByRowOrMissing) {
  json input = SmallCase();
  input.erase("seq_lens");
  const json whole = RunJson({.ranks = "2"}, input).result();
  input["seq_lens"] = {{4}};
  EXPECT_EQ(RunJson({.ranks = "2"}, input).result()["out"], whole["out"]);
  input["seq_lens"] = {{2}, {2}};
  const json rows =
      RunJson({.ranks = "2", .layout = "contiguous"}, input).result();
  EXPECT_EQ(rows["out"][2], json({{3.0}}));  // The first of its sequence.
}

TEST(RunAttendTest, PeopleGetALine) {
  const Outcome outcome =
      RunText({.ranks = "2", .exchange = "allgather"}, SmallCase().dump());
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("OK: 2 ranks, max difference "),
                                 HasSubstr("bytes received 16 16")));
}

struct Refusal {
  std::string name;
  CaseFlags flags;
  json patch;  // Merged into SmallCase().
  std::string status;
  std::string reason;
  std::string message;
};

class AttendRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(AttendRefusalTest, IsJsonAndExitStatusTwo) {
  json input = SmallCase();
  if (!GetParam().patch.is_null()) input.merge_patch(GetParam().patch);
  const Outcome outcome = RunJson(GetParam().flags, input);
  EXPECT_EQ(outcome.exit_status, 2);
  const json result = outcome.result();
  EXPECT_EQ(result["status"], GetParam().status);
  EXPECT_EQ(result["reason"], GetParam().reason);
  EXPECT_THAT(result["message"].get<std::string>(),
              HasSubstr(GetParam().message));
}

std::vector<Refusal> Refusals() {
  const std::string kInvalid = "INVALID_ARGUMENT";
  return {
      {"RingWindow",
       {.ranks = "2"},
       {{"kind", "window"}, {"window_left", 1}},
       "UNIMPLEMENTED",
       "NOT_SUPPORTED",
       "exchange ring cannot do the mask window(left 1, right 0)"},
      {"RingStripes",
       {.ranks = "2", .layout = "striped"},
       {},
       "UNIMPLEMENTED",
       "NOT_SUPPORTED",
       "exchange ring cannot do the layout STRIPED"},
      {"Heads",
       {.ranks = "2", .exchange = "alltoall"},
       {},
       kInvalid,
       "NOT_DIVISIBLE",
       "1 query and 1 kv heads over cp_size 2"},
      {"InnerSize",
       {.ranks = "2", .exchange = "hierarchical", .inner_size = "3"},
       {},
       kInvalid,
       "NOT_DIVISIBLE",
       "inner_size 3; must divide cp_size 2"},
      {"Slots",
       {.ranks = "2"},
       {{"seq_lens", {1, 3}}},
       kInvalid,
       "NOT_DIVISIBLE",
       "sequence 0"},
      {"Sum",
       {.ranks = "2"},
       {{"seq_lens", {4, 4}}},
       kInvalid,
       "LENGTHS_INCONSISTENT",
       "slots do not sum to the 4 tokens of q"},
      {"RealAbovePadded",
       {.ranks = "1"},
       {{"seq_lens", {5}}, {"seq_lens_padded", {4}}},
       kInvalid,
       "LENGTHS_INCONSISTENT",
       "5"},
      {"Counts",
       {.ranks = "1"},
       {{"seq_lens_padded", {2, 2}}},
       kInvalid,
       "LENGTHS_INCONSISTENT",
       "seq_lens_padded has 2 entries; must have those of seq_lens, 1"},
      {"Kind",
       {},
       {{"kind", "prefix"}},
       kInvalid,
       "BAD_OPTION",
       "kind is prefix; must be causal, full or window"},
      {"WindowWithoutLeft",
       {},
       {{"kind", "window"}},
       kInvalid,
       "BAD_OPTION",
       "window_left is missing"},
      {"NegativeWindow",
       {},
       {{"kind", "window"}, {"window_left", -2}},
       kInvalid,
       "BAD_OPTION",
       "-2"},
      {"NoQueries", {}, {{"q", nullptr}}, kInvalid, "BATCH_MALFORMED", "q is"},
      {"Text",
       {},
       {{"k", {{{"x"}}, {{0}}, {{0}}, {{0}}}}},
       kInvalid,
       "BATCH_MALFORMED",
       "k[0][0] is no list of numbers"},
      {"Ragged",
       {},
       {{"v", {{{1}}, {{1, 2}}, {{1}}, {{1}}}}},
       kInvalid,
       "SHAPE_MISMATCH",
       "v[1][0] has 2 elements; must have 1"},
      {"Tokens",
       {},
       {{"v", {{{1}}, {{1}}}}},
       kInvalid,
       "SHAPE_MISMATCH",
       "v has 2 tokens; must have q's 4"},
      {"Scale",
       {},
       {{"scale", "half"}},
       kInvalid,
       "BATCH_MALFORMED",
       "scale is no number"},
      {"Ranks",
       {.ranks = "0"},
       {},
       kInvalid,
       "BAD_OPTION",
       "ranks is \"0\"; must be an integer in [1, 256]"},
      {"Exchange",
       {.exchange = "addtoall"},
       {},
       kInvalid,
       "BAD_OPTION",
       "exchange is \"addtoall\""},
      {"Layout", {.layout = "zigzag"}, {}, kInvalid, "BAD_OPTION", "zigzag"},
      {"Transport",
       {.transport = "nccl"},
       {},
       kInvalid,
       "BAD_OPTION",
       "transport is \"nccl\"; must be loopback or gloo"},
      {"Dtype",
       {.dtype = "float16"},
       {},
       "UNIMPLEMENTED",
       "NOT_SUPPORTED",
       "dtype is float16; must be float64, float32 or bfloat16"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, AttendRefusalTest,
                         ::testing::ValuesIn(Refusals()),
                         [](const auto& info) { return info.param.name; });

TEST(RunAttendTest, NoJsonIsRefused) {
  const Outcome outcome = RunText({.json = true}, "{");
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_EQ(outcome.result()["reason"], "BATCH_MALFORMED");
}

TEST(RunAttendTest, PeopleGetErrorsAsText) {
  const Outcome outcome = RunText({.ranks = "x"}, SmallCase().dump());
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("ranks is \"x\""), HasSubstr("BAD_OPTION")));
}

}  // namespace
}  // namespace cpfeed::testing
