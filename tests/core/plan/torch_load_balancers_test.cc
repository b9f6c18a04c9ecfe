// Our layouts beside what PyTorch's own load balancers returned for the same
// lengths.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/plan/layout_spec.h"
#include "core/plan/layouts/ptrr.h"
#include "core/plan/shard_plan.h"
#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::nlohmann::json;

std::vector<json> CasesOf(const std::string& function) {
  std::ifstream file("tests/testdata/torch_load_balancers.json");
  const json document = json::parse(file);
  std::vector<json> cases;
  for (const json& item : document["cases"]) {
    if (item["fn"] == function) cases.push_back(item);
  }
  return cases;
}

std::string NameOf(const ::testing::TestParamInfo<json>& info) {
  return info.param["id"].get<std::string>();
}

// The plan's order of the whole stream: rank 0's positions, then rank 1's.
std::vector<int64_t> OrderOf(const ShardPlan& plan) {
  std::vector<int64_t> order;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    const std::vector<int32_t> index = LocalIndex(plan, rank);
    order.insert(order.end(), index.begin(), index.end());
  }
  return order;
}

std::vector<int64_t> RestoreOf(const std::vector<int64_t>& order) {
  std::vector<int64_t> restore(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    restore[order[i]] = static_cast<int64_t>(i);
  }
  return restore;
}

class HeadTailBalancerTest : public ::testing::TestWithParam<json> {};

TEST_P(HeadTailBalancerTest, IsHeadTailPerRow) {
  const json& args = GetParam()["args"];
  const json& out = GetParam()["out"];
  const auto plan =
      PlanShards(OneRow({args["seq_length"].get<int64_t>()}),
                 {.layout = Layout::kHeadTailPerRow}, args["cp_size"]);
  if (out.contains("err")) {
    EXPECT_THAT(plan, HasReason(kNotDivisible));
    return;
  }
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(OrderOf(*plan), out["indices"]["v"].get<std::vector<int64_t>>());
  EXPECT_EQ(RestoreOf(OrderOf(*plan)),
            out["restore"]["v"].get<std::vector<int64_t>>());
}

INSTANTIATE_TEST_SUITE_P(All, HeadTailBalancerTest,
                         ::testing::ValuesIn(CasesOf("_HeadTailLoadBalancer")),
                         NameOf);

class PerDocumentBalancerTest : public ::testing::TestWithParam<json> {};

// This version of PyTorch lists document by document and cuts that list in
// equal parts, which unbalances the ranks; later ones list rank by rank, as we
// do. So each document is compared by itself.
TEST_P(PerDocumentBalancerTest, OrdersEachDocumentAsHeadTailPerSequence) {
  const json& args = GetParam()["args"];
  const json& out = GetParam()["out"];
  const int cp_size = args["cp_size"];
  std::vector<int64_t> order;
  bool refused = false;
  for (const auto& row : args["seq_length_per_doc"]) {
    int64_t slot_begin = 0;
    for (const int64_t document : row.get<std::vector<int64_t>>()) {
      const auto plan =
          PlanShards(OneRow({document}),
                     {.layout = Layout::kHeadTailPerSequence}, cp_size);
      refused |= ReasonOf(plan.status()) == kNotDivisible;
      if (!plan.ok()) continue;
      for (const int64_t position : OrderOf(*plan)) {
        order.push_back(slot_begin + position);
      }
      slot_begin += document;
    }
  }
  EXPECT_EQ(refused, out.contains("err"));
  if (!refused) {
    EXPECT_EQ(order, out["indices"]["v"].get<std::vector<int64_t>>());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PerDocumentBalancerTest,
    ::testing::ValuesIn(CasesOf("_PerDocumentHeadTailLoadBalancer")), NameOf);

std::vector<int64_t> BlocksInRankOrder(const std::vector<int>& owners) {
  std::vector<int64_t> blocks(owners.size());
  std::iota(blocks.begin(), blocks.end(), 0);
  std::stable_sort(blocks.begin(), blocks.end(),
                   [&](int64_t a, int64_t b) { return owners[a] < owners[b]; });
  return blocks;
}

class PtrrSchedulingTest : public ::testing::TestWithParam<json> {};

TEST_P(PtrrSchedulingTest, DealsTheTasksAlike) {
  const json& args = GetParam()["args"];
  const json& out = GetParam()["out"];
  const auto costs = args["process_time"].get<std::vector<int64_t>>();
  const int cp_size = args["cp_size"];
  if (out.contains("err")) {
    const int64_t num_tokens =
        static_cast<int64_t>(costs.size()) * kPtrrBlockSize;
    EXPECT_THAT(
        PlanShards(OneRow({num_tokens}), {.layout = Layout::kPtrr}, cp_size),
        HasReason(kNotDivisible));
    return;
  }
  EXPECT_EQ(BlocksInRankOrder(PtrrOwners(costs, cp_size)),
            out["tasks_in_group"]["v"].get<std::vector<int64_t>>());
}

INSTANTIATE_TEST_SUITE_P(
    All, PtrrSchedulingTest,
    ::testing::ValuesIn(CasesOf("_PTRRLoadBalancer.ptrr_scheduling")), NameOf);

class PtrrBalancerTest : public ::testing::TestWithParam<json> {};

TEST_P(PtrrBalancerTest, CountsAndDealsBlocksAlike) {
  const json& args = GetParam()["args"];
  const int64_t block_size = args["block_size"];
  const std::vector<int64_t> costs =
      PtrrBlockCosts(OneRow(args["documents"].get<std::vector<int64_t>>()),
                     args["seq_length"], block_size);
  std::vector<int64_t> order;
  for (const int64_t block :
       BlocksInRankOrder(PtrrOwners(costs, args["cp_size"]))) {
    for (int64_t i = 0; i < block_size; ++i) {
      order.push_back(block * block_size + i);
    }
  }
  const json& out = GetParam()["out"];
  EXPECT_EQ(order, out["indices"]["v"].get<std::vector<int64_t>>());
  EXPECT_EQ(RestoreOf(order), out["restore"]["v"].get<std::vector<int64_t>>());
}

INSTANTIATE_TEST_SUITE_P(All, PtrrBalancerTest,
                         ::testing::ValuesIn(CasesOf("_PTRRLoadBalancer")),
                         NameOf);

}  // namespace
}  // namespace cpfeed
