#include "tests/client/cli/shard_runs.h"

#include <gtest/gtest.h>

#include <numeric>
#include <sstream>
#include <utility>

#include "client/cli/shard_command.h"

namespace cpfeed::testing {
namespace {

using ::nlohmann::json;

json RunOn(const json& input, ShardFlags flags) {
  flags.input = "-";
  flags.json = true;
  if (flags.cp_size.empty()) flags.cp_size = "1";
  std::istringstream in(input.dump());
  std::ostringstream out, err;
  const int exit_status = RunShard(flags, ShardOffline, in, out, err);
  const json result = json::parse(out.str());
  EXPECT_EQ(exit_status, result["status"] == "OK" ? 0 : 2) << result;
  return result;
}

json Parity(const std::string& mode, const json& input, ShardFlags flags) {
  flags.parity = mode;
  const json result = RunOn(input, std::move(flags));
  EXPECT_EQ(result["status"], "OK") << result;
  return result.value("ranks", json());
}

}  // namespace

json Native(const json& input, const ShardFlags& flags) {
  const json result = RunOn(input, flags);
  EXPECT_EQ(result["status"], "OK") << result;
  return result.value("chunks", json());
}

json Release04(const json& input, const ShardFlags& flags) {
  return Parity("automodel_0_4", input, flags);
}

json Release07(const json& input, const ShardFlags& flags) {
  return Parity("automodel_0_7", input, flags);
}

std::string ReasonFor(const json& input, const ShardFlags& flags) {
  const json result = RunOn(input, flags);
  EXPECT_EQ(result["status"], "INVALID_ARGUMENT") << result;
  return result.value("reason", "");
}

json Batch(const json& rows, const json& seq_lens,
           const json& seq_lens_padded) {
  json positions = json::array();
  for (const json& row : rows) {
    Ints arange(row.size());
    std::iota(arange.begin(), arange.end(), 0);
    positions.push_back(arange);
  }
  return {{"input_ids", rows},
          {"labels", rows},
          {"position_ids", positions},
          {"seq_lens", seq_lens},
          {"seq_lens_padded", seq_lens_padded}};
}

json CountingRows(int64_t num_rows, int64_t width) {
  json rows = json::array();
  for (int64_t row = 0; row < num_rows; ++row) {
    Ints ids(width);
    std::iota(ids.begin(), ids.end(), row * width + 1);
    rows.push_back(ids);
  }
  return rows;
}

json Floats(const Ints& shape) {
  int64_t size = 1;
  for (const int64_t dimension : shape) size *= dimension;
  Ints values(size);
  std::iota(values.begin(), values.end(), 0);
  return {{"dt", "f32"}, {"sh", shape}, {"v", values}};
}

json FourRows() {
  return Batch({{1, 2, 3, 4, 5, 6, 7, 8},
                {11, 12, 13, 14, 15, 16, 17, 18},
                {21, 22, 23, 24, 25, 26, 27, 28},
                {31, 32, 33, 34, 35, 36, 37, 38}},
               {{4, 3}, {8, kFiller}, {6, kFiller}, {8, kFiller}},
               {{4, 4}, {8, kFiller}, {8, kFiller}, {8, kFiller}});
}

}  // namespace cpfeed::testing
