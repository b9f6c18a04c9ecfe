#include "client/worker/delta_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/testing/golden.h"

namespace cpfeed::testing {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
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
  const int exit_status = RunGatedDelta(flags, in, out, err);
  return {exit_status, out.str(), err.str()};
}

Outcome RunJson(CaseFlags flags, const json& input) {
  flags.json = true;
  return RunText(flags, input.dump());
}

void Flatten(const json& value, std::vector<double>& into) {
  if (!value.is_array()) return into.push_back(value.get<double>());
  for (const json& item : value) Flatten(item, into);
}

double Difference(const json& a, const json& b) {
  std::vector<double> x, y;
  Flatten(a, x);
  Flatten(b, y);
  EXPECT_EQ(x.size(), y.size());
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    most = std::max(most, std::abs(x[i] - y[i]));
  }
  return most;
}

// The rule alone over four tokens: K = 2, V = 1.
json SmallCase() {
  const double half = std::log(0.5);
  return {{"in",
           {{"q", {{{1, 0}}, {{0, 1}}, {{.6, .8}}, {{.8, -.6}}}},
            {"k", {{{1, 0}}, {{0, 1}}, {{.6, .8}}, {{1, 0}}}},
            {"v", {{{1}}, {{2}}, {{3}}, {{4}}}},
            {"g", {{0}, {half}, {half}, {0}}},
            {"beta", {{1}, {.5}, {1}, {.5}}}}},
          {"dout", {{{1}}, {{1}}, {{1}}, {{1}}}},
          {"qk_l2norm", false},
          {"cu_seqlens", {0, 4}}};
}

// With its convolution: two tokens, one head of one column.
json ConvCase() {
  return {{"in",
           {{"mixed_qkv", {{1, 1, 1}, {1, 1, 1}}},
            {"conv_weight", {{0, 1}, {0, 1}, {0, 1}}},
            {"a", {{0}, {0}}},
            {"b", {{0}, {0}}},
            {"A_log", {0}},
            {"dt_bias", {0}}}},
          {"Hk", 1},
          {"Hv", 1},
          {"K", 1},
          {"V", 1}};
}

TEST(RunGatedDeltaTest, GivesNumbersWorkedByHand) {
  for (const std::string transport : {"loopback", "gloo"}) {
    const Outcome outcome =
        RunJson({.ranks = "2", .dtype = "float64", .transport = transport},
                SmallCase());
    ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
    const json result = outcome.result();
    EXPECT_EQ(result["status"], "OK");
    EXPECT_LE(Difference(result["out"], {.707106781187, .707106781187,
                                         2.121320343560, .574170706323}),
              1e-11);
    EXPECT_LE(Difference(result["final_state"], {2.86, 2.46}), 1e-11);
    EXPECT_LE(result["max_difference"].get<double>(), 1e-12);
    EXPECT_FALSE(result.contains("conv_out"));
    // Rows of q, k, v, g and beta (7 numbers of 8 bytes) move, states too.
    ASSERT_EQ(result["bytes_received"].size(), 2);
    EXPECT_GT(result["bytes_received"][0], 0);
    EXPECT_GT(result["backward_bytes_received"][1], 0);
  }
}

struct Ranks {
  std::string name;
  CaseFlags flags;
};
std::vector<Ranks> AllRanks() {
  return {{"One", {.ranks = "1"}},
          {"TwoBalanced", {.ranks = "2", .layout = "balanced"}},
          {"ThreeBalancedGloo",
           {.ranks = "3", .layout = "balanced", .transport = "gloo"}},
          {"FourPaddedBalanced",
           {.ranks = "4", .layout = "balanced", .token_multiple = "4"}},
          {"TwoStripedGloo",
           {.ranks = "2", .layout = "striped", .transport = "gloo"}},
          {"FiveContiguous",
           {.ranks = "5", .layout = "contiguous", .uneven = true}}};
}

void ExpectGolden(const json& golden, CaseFlags flags) {
  flags.dtype = "float64";
  const Outcome outcome = RunJson(flags, golden);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  const json result = outcome.result();
  for (const char* const key :
       {"out", "final_state", "conv_out", "g", "beta"}) {
    ASSERT_EQ(result.contains(key), golden.contains(key)) << key;
    if (!golden.contains(key)) continue;
    EXPECT_LE(Difference(result[key], golden[key]), 1e-9) << key;
  }
  EXPECT_EQ(result["grad"].size(), golden["grad"].size());
  for (const auto& [name, gradient] : golden["grad"].items()) {
    EXPECT_LE(Difference(result["grad"][name], gradient), 1e-9) << name;
  }
  EXPECT_LE(result["max_difference"].get<double>(), 1e-11);
}

class DeltaGoldenTest : public ::testing::TestWithParam<json> {};
INSTANTIATE_TEST_SUITE_P(Cases, DeltaGoldenTest,
                         ::testing::ValuesIn(GoldenCases("gated_delta.json")),
                         GoldenId);

TEST_P(DeltaGoldenTest, EveryLayoutAndTransportGivesTheAnswer) {
  for (const Ranks& ranks : AllRanks()) {
    SCOPED_TRACE(ranks.name);
    ExpectGolden(GetParam(), ranks.flags);
  }
}

TEST_P(DeltaGoldenTest, NarrowDtypesAreNearOneDevice) {
  struct Width {
    std::string dtype;
    double tolerance;
  };
  // bfloat16 has 8 bits of mantissa; rows travel, and gradients come back, in
  // it.
  for (const Width& width : {Width{"float32", 1e-5}, Width{"bfloat16", 0.1}}) {
    const json result =
        RunJson({.ranks = "3", .layout = "balanced", .dtype = width.dtype},
                GetParam())
            .result();
    ASSERT_EQ(result["status"], "OK");
    EXPECT_LE(result["max_difference"].get<double>(), width.tolerance)
        << width.dtype;
    EXPECT_GT(result["max_difference"].get<double>(), 0);
  }
}

TEST(RunGatedDeltaTest, WithoutDoutThereAreNoGradients) {
  const Outcome outcome = RunJson({}, ConvCase());
  ASSERT_EQ(outcome.exit_status, 0) << outcome.out;
  EXPECT_FALSE(outcome.result().contains("grad"));
  EXPECT_TRUE(outcome.result().contains("conv_out"));
}

TEST(RunGatedDeltaTest, PaddingIsLeftOut) {
  json input = SmallCase();
  input.erase("cu_seqlens");
  input["seq_lens"] = {3};
  input["seq_lens_padded"] = {4};
  input["in"]["v"][3][0][0] = 1e30;
  const json result =
      RunJson({.ranks = "2", .layout = "balanced"}, input).result();
  EXPECT_EQ(result["out"][3][0][0], 0);
  EXPECT_EQ(result["grad"]["v"][3][0][0], 0);
  EXPECT_LE(result["max_difference"].get<double>(), 1e-6);
}

TEST(RunGatedDeltaTest, PeopleGetALine) {
  const Outcome outcome = RunText({.ranks = "2"}, SmallCase().dump());
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("OK: 2 ranks, max difference "),
                                 HasSubstr("bytes received ")));
}

struct Refusal {
  std::string name;
  CaseFlags flags;
  json patch;  // Merged into SmallCase(); or of `of_conv` into ConvCase().
  std::string reason;
  std::string message;
  bool of_conv = false;
};

class DeltaRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(DeltaRefusalTest, IsJsonAndExitStatusTwo) {
  json input = GetParam().of_conv ? ConvCase() : SmallCase();
  if (!GetParam().patch.is_null()) input.merge_patch(GetParam().patch);
  const Outcome outcome = RunJson(GetParam().flags, input);
  EXPECT_EQ(outcome.exit_status, 2);
  const json result = outcome.result();
  EXPECT_EQ(result["reason"], GetParam().reason);
  EXPECT_THAT(result["message"].get<std::string>(),
              HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, DeltaRefusalTest,
    ::testing::ValuesIn(std::vector<Refusal>{
        {"NoInputs", {}, {{"in", nullptr}}, "BATCH_MALFORMED", "the input"},
        {"NoKeys",
         {},
         {{"in", {{"k", nullptr}}}},
         "BATCH_MALFORMED",
         "k is no list [T][Hk][K]"},
        {"Tokens",
         {},
         {{"in", {{"g", {{0}, {0}}}}}},
         "SHAPE_MISMATCH",
         "g has 2 tokens; must have q's 4"},
        {"Ragged",
         {},
         {{"in", {{"beta", {{1}, {1, 1}, {1}, {1}}}}}},
         "SHAPE_MISMATCH",
         "beta[1] has 2 elements; must have 1"},
        {"Dout",
         {},
         {{"dout", {{{1, 1}}, {{1, 1}}, {{1, 1}}, {{1, 1}}}}},
         "SHAPE_MISMATCH",
         "dout has 2 columns; must have the case's 1"},
        {"Scale",
         {},
         {{"scale", "x"}},
         "BATCH_MALFORMED",
         "scale is no number"},
        {"Norm", {}, {{"qk_l2norm", 1}}, "BATCH_MALFORMED", "qk_l2norm is no"},
        {"SumsDescend",
         {},
         {{"cu_seqlens", {0, 3, 2, 4}}},
         "LENGTHS_INCONSISTENT",
         "cu_seqlens goes from 3 to 2 at entry 2"},
        {"SumsBegin",
         {},
         {{"cu_seqlens", {1, 4}}},
         "LENGTHS_INCONSISTENT",
         "cu_seqlens must be one list that begins with 0"},
        {"SumsEndEarly",
         {},
         {{"cu_seqlens", {0, 3}}},
         "LENGTHS_INCONSISTENT",
         "slots do not sum to the 4 tokens of q"},
        {"Slots",
         {.ranks = "2"},
         {{"cu_seqlens", {0, 3, 4}}},
         "NOT_DIVISIBLE",
         "sequence 0"},
        {"HeadsMissing",
         {},
         {{"Hv", nullptr}},
         "BAD_OPTION",
         "Hv is missing; must be an integer in [1, ",
         true},
        {"Columns",
         {},
         {{"K", 2}},
         "SHAPE_MISMATCH",
         "mixed_qkv has shape [2, 3]; must be [2, 5]",
         true},
        {"Heads",
         {},
         {{"Hk", 2}},
         "NOT_DIVISIBLE",
         "value_heads is 1; must be a multiple of key_heads = 2",
         true},
        {"Ranks", {.ranks = "0"}, {}, "BAD_OPTION", "ranks is \"0\""},
        {"Dtype",
         {.dtype = "float16"},
         {},
         "NOT_SUPPORTED",
         "dtype is float16"},
        {"Transport",
         {.transport = "nccl"},
         {},
         "BAD_OPTION",
         "transport is \"nccl\""},
        {"Layout", {.layout = "zigzag"}, {}, "BAD_OPTION", "zigzag"},
    }),
    [](const auto& info) { return info.param.name; });

// The rule checks what the case does not know.
TEST(RunGatedDeltaTest, HeadsThatDoNotFitAreRefused) {
  json input = SmallCase();
  input["in"]["k"] = {{{1}}, {{0}}, {{1}}, {{1}}};
  const Outcome outcome = RunJson({.ranks = "2"}, input);
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_EQ(outcome.result()["reason"], "SHAPE_MISMATCH");
}

TEST(RunGatedDeltaTest, PeopleGetErrorsAsText) {
  const Outcome outcome = RunText({.ranks = "x"}, SmallCase().dump());
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("cpfeed_worker gated_delta: ranks is"));
}

}  // namespace
}  // namespace cpfeed::testing
