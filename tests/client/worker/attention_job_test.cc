#include "client/worker/attention_job.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention/make_kv_exchange.h"
#include "core/base/error.h"
#include "core/comm/loopback_communicator.h"
#include "core/plan/layout.h"
#include "tests/client/worker/job_steps.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Three steps of two rows of 96 positions each, with padding and an empty slot,
// and what the ranks of a group make of them.
struct Job {
  LayoutSpec spec;
  int cp_size = 4;
  int64_t num_chunks = 1;
  std::string exchange = "ring";
  Fault fault = Fault::kNone;
  std::optional<int64_t> num_steps;
  int fed = 3;       // Steps in the file that rank 0 compares with.
  int streamed = 3;  // Steps that ranks receive.

  std::vector<StepReport> reports;
  std::vector<absl::StatusOr<JobSummary>> summaries;

  void Run();
};

void Job::Run() {
  std::vector<std::string> lines;
  std::vector<std::vector<StepShard>> steps(cp_size);
  for (int step = 0; step < std::max(fed, streamed); ++step) {
    const PackedBatch batch = BatchOf(
        {{{40, 48}, {1, 24}, {24, 24}}, {{0, 24}, {70 + step, 72}}}, step);
    if (step < fed) lines.push_back(LineOf(batch));
    const auto shards = ShardsOf(batch, spec, cp_size, num_chunks);
    for (int rank = 0; rank < cp_size && step < streamed; ++rank) {
      steps[rank].push_back(shards[rank]);
    }
  }
  auto expected = ExpectedBatches::Open(WriteLines(lines));
  ASSERT_THAT(expected, IsOk());
  const auto kv_exchange = MakeKvExchange(exchange);
  ASSERT_THAT(kv_exchange, IsOk());
  auto group = MakeLoopbackGroup(cp_size);
  summaries.assign(cp_size, JobSummary());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < cp_size; ++rank) {
    ranks.emplace_back([&, rank] {
      at::set_num_threads(1);
      AttentionJobOptions options{.num_steps = num_steps, .fault = fault};
      if (rank == 0) options.expected = &*expected;
      options.on_step = [&](const StepReport& report) {
        reports.push_back(report);
      };
      const auto end = std::move(group[rank]);
      summaries[rank] =
          RunAttentionJob(options, **kv_exchange, SourceOf(steps[rank]), *end);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

struct Layouts {
  std::string name;
  LayoutSpec spec;
  std::string exchange;
};
class AttentionJobTest : public ::testing::TestWithParam<Layouts> {};

TEST_P(AttentionJobTest, EveryStepEqualsOneDevice) {
  for (const int64_t num_chunks : {1, 2}) {
    for (const int cp_size : {1, 3, 4}) {
      Job job{.spec = GetParam().spec,
              .cp_size = cp_size,
              .num_chunks = num_chunks,
              .exchange = GetParam().exchange};
      job.Run();
      EXPECT_THAT(job.summaries, Each(IsOk()));
      ASSERT_THAT(job.reports, SizeIs(3));
      EXPECT_EQ(job.summaries[0]->steps, 3);
      EXPECT_LE(job.summaries[0]->max_difference, 1e-5);
      // float32 against float64: a difference of 0 would mean that nothing was
      // compared.
      EXPECT_GT(job.summaries[0]->max_difference, 0);
      // Keys and values, 2 heads of 16 float32 each, of the other ranks' rows.
      const int64_t rows = 192 / cp_size * (cp_size - 1);
      EXPECT_THAT(job.reports[0].bytes_received, SizeIs(cp_size));
      EXPECT_THAT(job.reports[0].bytes_received, Each(rows * 2 * 2 * 16 * 4));
      EXPECT_EQ(job.reports[2].documents, 4);
      EXPECT_EQ(job.reports[2].tokens, 40 + 1 + 24 + 72);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AttentionJobTest,
    ::testing::ValuesIn(std::vector<Layouts>{
        {"PerSequenceRing", {}, "ring"},
        {"PerSequenceAllgather", {}, "allgather"},
        {"PerRowRing", {.layout = Layout::kHeadTailPerRow}, "ring"},
        {"ContiguousRing", {.layout = Layout::kContiguous}, "ring"},
        {"StripedAllgather", {.layout = Layout::kStriped}, "allgather"},
        {"ChunksAllgather",
         {.layout = Layout::kChunkGreedy, .chunk_size = 8},
         "allgather"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(AttentionJobExchangeTest, EveryExchangeEqualsOneDevice) {
  for (const std::string& exchange : KvExchangeNames()) {
    Job job{.cp_size = 4, .exchange = exchange};
    job.Run();
    EXPECT_THAT(job.summaries, Each(IsOk())) << exchange;
    EXPECT_THAT(job.reports, SizeIs(3));
    EXPECT_LE(job.summaries[0]->max_difference, 1e-5);
    EXPECT_GT(job.summaries[0]->max_difference, 0);
  }
}

class FaultTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, FaultTest, ::testing::Values("ring", "allgather"),
                         [](const auto& info) { return info.param; });

TEST_P(FaultTest, SwappedRowsAreFound) {
  Job job{.exchange = GetParam(), .fault = Fault::kSwap};
  job.Run();
  EXPECT_THAT(job.summaries[0],
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("step 1: largest difference"),
                             HasSubstr("must be at most 1e-05"))));
  // The first step was sound; the others learn that rank 0 has left.
  ASSERT_THAT(job.reports, SizeIs(2));
  EXPECT_LE(*job.reports[0].max_difference, 1e-5);
  EXPECT_GT(*job.reports[1].max_difference, 1e-2);
  EXPECT_THAT(job.summaries, Each(Not(IsOk())));
}

TEST_P(FaultTest, StaleKeysAndValuesAreFound) {
  Job job{.exchange = GetParam(), .fault = Fault::kStaleKv};
  job.Run();
  EXPECT_THAT(job.summaries[0],
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("step 1: largest difference")));
  EXPECT_GT(*job.reports[1].max_difference, 1e-2);
}

TEST_P(FaultTest, LostStepIsFoundByTheRankAndEndsTheOthers) {
  Job job{.exchange = GetParam(), .fault = Fault::kDrop};
  job.Run();
  EXPECT_THAT(job.summaries[3],
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 3 received step 2; must be 1")));
  EXPECT_THAT(job.summaries[3], HasReason(kOutOfOrder));
  EXPECT_THAT(job.summaries, Each(Not(IsOk())));
}

TEST_P(FaultTest, OneRankAloneFindsThemToo) {
  for (const Fault fault : {Fault::kSwap, Fault::kStaleKv, Fault::kDrop}) {
    Job job{.cp_size = 1, .exchange = GetParam(), .fault = fault};
    job.Run();
    EXPECT_THAT(job.summaries[0], Not(IsOk()));
  }
}

TEST(AttentionJobEndTest, NumStepsEndsTheJobEarly) {
  Job job{.num_steps = 2};
  job.Run();
  EXPECT_THAT(job.summaries, Each(IsOk()));
  EXPECT_THAT(job.reports, SizeIs(2));
}

TEST(AttentionJobEndTest, TooFewStepsAreAnError) {
  Job job{.num_steps = 4};
  job.Run();
  EXPECT_THAT(job.summaries,
              Each(StatusIs(absl::StatusCode::kOutOfRange,
                            HasSubstr("data ended after 3 steps; must be 4"))));
}

TEST(AttentionJobEndTest, StepsThatWereFedAndNeverCameAreAnError) {
  Job job{.fed = 3, .streamed = 2};
  job.Run();
  EXPECT_THAT(job.summaries[0], StatusIs(absl::StatusCode::kOutOfRange,
                                         HasSubstr("data ended after step 1")));
}

TEST(AttentionJobEndTest, StepThatNobodyFedIsAnError) {
  Job job{.fed = 2, .streamed = 3};
  job.Run();
  EXPECT_THAT(job.summaries[0],
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("step 2: it is behind the last batch")));
}

// Rank 1 has a plan of another layout: found before anything is sent.
TEST(AttentionJobPlanTest, DifferentPlansAreNamed) {
  const PackedBatch batch = BatchOf({{{16, 16}}}, 1);
  const auto exchange = MakeKvExchange("allgather");
  ASSERT_THAT(exchange, IsOk());
  auto group = MakeLoopbackGroup(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      const LayoutSpec spec{.layout = rank == 0 ? Layout::kContiguous
                                                : Layout::kStriped};
      EXPECT_THAT(
          RunAttentionJob({}, **exchange,
                          SourceOf({ShardsOf(batch, spec, 2, 1)[rank]}),
                          *group[rank]),
          StatusIs(absl::StatusCode::kFailedPrecondition,
                   AllOf(HasSubstr("step 0: plan digest is 0x"),
                         HasSubstr("on rank 0"), HasSubstr("on rank 1"))));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(AttentionJobPlanTest, SkippedStepsAreSkippedByAll) {
  const auto exchange = MakeKvExchange("ring");
  ASSERT_THAT(exchange, IsOk());
  auto group = MakeLoopbackGroup(1);
  const auto shards = ShardsOf(BatchOf({{{16, 16}}}, 1), {}, 1, 1);
  int64_t next = 0;
  const StepSource source = [&]() -> absl::StatusOr<std::optional<WorkerStep>> {
    if (next == 4) return std::nullopt;
    WorkerStep step{.step = next++, .shard = std::nullopt};
    if (step.step != 1) step.shard = shards[0];
    return step;
  };
  const auto summary = RunAttentionJob({}, **exchange, source, *group[0]);
  ASSERT_THAT(summary, IsOk());
  EXPECT_EQ(summary->steps, 3);
}

}  // namespace
}  // namespace cpfeed::testing
