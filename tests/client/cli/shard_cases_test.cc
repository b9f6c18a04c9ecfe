// `cpfeed shard` on small batches that other systems shard wrongly.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/shard_command.h"
#include "client/cli/shard_flags.h"
#include "tests/testing/golden.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::GoldenCases;
using ::cpfeed::testing::GoldenId;
using ::nlohmann::json;
using ::testing::HasSubstr;

std::string TextOf(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

ShardFlags FlagsOf(const json& settings) {
  ShardFlags flags{.input = "-", .json = true};
  // What "thd" and "bshd" mean where no layout is named.
  if (settings.contains("qkv_format")) {
    flags.layout = settings["qkv_format"] == "bshd" ? "head_tail_per_row"
                                                    : "head_tail_per_sequence";
  }
  for (const auto& [key, value] : settings.items()) {
    if (key == "cp_size") {
      flags.cp_size = TextOf(value);
    } else if (key == "num_chunks") {
      flags.num_chunks = TextOf(value);
    } else if (key == "padding_token_id") {
      flags.padding_token_id = TextOf(value);
    } else if (key == "seq_lens_padding_value") {
      flags.seq_lens_padding_value = TextOf(value);
    } else if (key == "layout") {
      flags.layout = TextOf(value);
    } else if (key == "auto_pad") {
      flags.auto_pad = value.get<bool>();
    } else {
      EXPECT_EQ(key, "qkv_format") << "the case has a setting that this test "
                                      "does not know";
    }
  }
  return flags;
}

// One row of `seq_len` tokens where the case says no more than that.
json InputOf(const json& input) {
  if (!input.contains("seq_len")) return input;
  std::vector<int64_t> ids(input["seq_len"].get<int64_t>());
  std::iota(ids.begin(), ids.end(), 0);
  return {{"input_ids", {ids}}, {"labels", {ids}}};
}

// The place and both values where `actual` lacks something of `expected`, else
// nothing. null in `expected` is any value.
std::string Difference(const json& expected, const json& actual,
                       const std::string& path) {
  if (expected.is_null()) return "";
  if (expected.is_object()) {
    for (const auto& [key, value] : expected.items()) {
      if (!actual.contains(key)) return path + "/" + key + " is missing";
      const std::string found =
          Difference(value, actual[key], path + "/" + key);
      if (!found.empty()) return found;
    }
    return "";
  }
  if (expected.is_array() && actual.is_array() &&
      expected.size() == actual.size()) {
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::string found =
          Difference(expected[i], actual[i], path + "/" + std::to_string(i));
      if (!found.empty()) return found;
    }
    return "";
  }
  if (expected == actual) return "";
  return path + " is " + actual.dump() + "; expected " + expected.dump();
}

// [first, last] of a rank's head or tail piece; null is an inserted position.
void ExpectPiece(const json& piece, int64_t first, int64_t last) {
  EXPECT_EQ(first, piece[0].is_null() ? -1 : piece[0].get<int64_t>());
  EXPECT_EQ(last, piece[1].is_null() ? -1 : piece[1].get<int64_t>());
}

// The short form for wide rows: lengths and ends of pieces.
void ExpectPieces(const json& expected, const json& chunk) {
  EXPECT_EQ(chunk["total_tokens"], expected["padded_len"]);
  ASSERT_EQ(chunk["ranks"].size(), expected["ranks"].size());
  for (const json& wanted : expected["ranks"]) {
    const auto source =
        chunk["ranks"][wanted["rank"].get<int>()]["source_index"]
            .get<std::vector<int64_t>>();
    ASSERT_EQ(source.size(), wanted["len"]);
    const size_t half = source.size() / 2;
    ExpectPiece(wanted["head_piece"], source[0], source[half - 1]);
    ExpectPiece(wanted["tail_piece"], source[half], source.back());
  }
}

// The mean loss over all ranks when the loss of a token is its position.
double PositionLoss(const json& result) {
  double sum = 0;
  for (const json& rank : result["chunks"][0]["ranks"]) {
    for (size_t i = 0; i < rank["labels"].size(); ++i) {
      if (rank["labels"][i] != -100) sum += rank["index"][i].get<double>();
    }
  }
  return sum / result["num_label_tokens_global"].get<double>();
}

void ExpectLabelCounts(const json& expected, const json& result) {
  EXPECT_EQ(result["num_label_tokens_global"],
            expected["num_label_tokens_global"]);
  const json& ranks = result["chunks"][0]["ranks"];
  ASSERT_EQ(ranks.size(), expected["num_label_tokens_per_rank"].size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(ranks[i]["num_label_tokens"],
              expected["num_label_tokens_per_rank"][i]);
  }
  EXPECT_DOUBLE_EQ(PositionLoss(result), expected["loss"].get<double>());
}

// Of several faulty sequences it is enough to name the first.
void ExpectNamed(const json& names, const std::string& message) {
  bool sequence_named = false;
  for (const json& name : names) {
    const std::string text = name.get<std::string>();
    if (text.rfind("sequence", 0) == 0) {
      if (sequence_named) continue;
      sequence_named = true;
    }
    EXPECT_THAT(message, HasSubstr(text));
  }
}

class ShardCasesTest : public ::testing::TestWithParam<json> {};

TEST_P(ShardCasesTest, ComesOutRight) {
  const json& expected = GetParam()["expected"];
  std::istringstream in(InputOf(GetParam()["input"]).dump());
  std::ostringstream out, err;
  const int exit_status =
      RunShard(FlagsOf(GetParam()["settings"]), ShardOffline, in, out, err);
  EXPECT_EQ(err.str(), "");
  const json result = json::parse(out.str());
  if (expected["status"] == "ERROR") {
    EXPECT_EQ(exit_status, 2);
    EXPECT_EQ(result["status"], expected["grpc_code"]);
    EXPECT_NE(result["reason"], "");
    ExpectNamed(expected["message_must_name"], result["message"]);
    return;
  }
  ASSERT_EQ(exit_status, 0) << result;
  EXPECT_EQ(result["status"], expected["status"]);
  if (expected.contains("chunks")) {
    EXPECT_EQ(Difference(expected["chunks"], result["chunks"], ""), "");
  } else if (expected.contains("padded_len")) {
    ExpectPieces(expected, result["chunks"][0]);
  } else {
    ExpectLabelCounts(expected, result);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ShardCasesTest,
    ::testing::ValuesIn(GoldenCases("reported_sharding_faults.json")),
    GoldenId);

}  // namespace
}  // namespace cpfeed
