#include "client/worker/model/model_job.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "core/attention/make_kv_exchange.h"
#include "core/base/error.h"
#include "core/comm/loopback_communicator.h"
#include "core/plan/layout_spec.h"
#include "tests/client/worker/job_steps.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kVocabulary = 11;

// A small model with every kind of layer. Heads are not too narrow: a vector of
// few components may be next to 0 by chance, and its norm blows up rounding.
DecoderShape SmallShape() {
  return {.vocab_size = kVocabulary,
          .num_layers = 3,
          .width = 32,
          .mlp_width = 32,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 8,
          .delta_key_heads = 1,
          .delta_value_heads = 2,
          .delta_head_dim = 16,
          .conv_width = 3};
}

// Steps of two rows of 24 positions with padding, an empty slot, and a document
// of one token, which has no label.
struct Job {
  LayoutSpec spec;
  int cp_size = 2;
  int64_t num_chunks = 1;
  std::string exchange = "planned";
  Fault fault = Fault::kNone;
  int num_steps = 3;
  double learning_rate = 0.0005;
  double tolerance = 1e-5;
  DecoderShape shape = SmallShape();

  std::vector<ModelStepReport> reports;
  std::vector<absl::StatusOr<ModelSummary>> summaries;

  void Run();
};

void Job::Run() {
  std::vector<std::string> lines;
  std::vector<std::vector<StepShard>> steps(cp_size);
  for (int step = 0; step < num_steps; ++step) {
    const PackedBatch batch = CountingBatchOf(
        {{{9, 12}, {1, 12}}, {{12, 12}, {0, 4}, {5 + step % 3, 8}}},
        kVocabulary, step);
    lines.push_back(LineOf(batch));
    const auto shards = ShardsOf(batch, spec, cp_size, num_chunks);
    for (int rank = 0; rank < cp_size; ++rank) {
      steps[rank].push_back(shards[rank]);
    }
  }
  auto expected = ExpectedBatches::Open(WriteLines(lines));
  ASSERT_THAT(expected, IsOk());
  const auto kv_exchange = MakeKvExchange(exchange);
  ASSERT_THAT(kv_exchange, IsOk());
  auto group = MakeLoopbackGroup(cp_size);
  summaries.assign(cp_size, ModelSummary());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < cp_size; ++rank) {
    ranks.emplace_back([&, rank] {
      at::set_num_threads(1);
      ModelJobOptions options{.shape = shape,
                              .learning_rate = learning_rate,
                              .tolerance = tolerance,
                              .fault = fault,
                              .on_step = [&](const ModelStepReport& report) {
                                reports.push_back(report);
                              }};
      if (rank == 0) options.expected = &*expected;
      summaries[rank] =
          RunModelJob(options, **kv_exchange, SourceOf(steps[rank]),
                      std::shared_ptr<Communicator>(std::move(group[rank])));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

struct Setting {
  std::string name;
  LayoutSpec spec;
  int cp_size;
  std::string exchange;
  int64_t num_chunks = 1;
};

class ModelJobTest : public ::testing::TestWithParam<Setting> {};

// Each step depends on all before it: the models stay together only if every
// gradient is right. Rounding grows from step to step too, the more the larger
// the steps are.
TEST_P(ModelJobTest, EveryStepEqualsOneDevice) {
  Job job{.spec = GetParam().spec,
          .cp_size = GetParam().cp_size,
          .num_chunks = GetParam().num_chunks,
          .exchange = GetParam().exchange,
          .num_steps = 6};
  job.Run();
  EXPECT_THAT(job.summaries, Each(IsOk()));
  ASSERT_THAT(job.reports, SizeIs(6));
  for (const ModelStepReport& report : job.reports) {
    EXPECT_EQ(report.labels, 8 + 0 + 11 + 4 + report.step % 3);
    EXPECT_LE(*report.loss_difference, 1e-5);
    EXPECT_LE(*report.gradient_difference, 1e-5);
    // float32 beside float64: no difference would mean that nothing was
    // compared.
    EXPECT_GT(*report.gradient_difference, 0);
  }
  EXPECT_LT(job.reports.back().loss, job.reports.front().loss);
  // All ranks have the same loss.
  for (const auto& summary : job.summaries) {
    EXPECT_EQ(summary->first_loss, job.summaries[0]->first_loss);
    EXPECT_EQ(summary->last_loss, job.summaries[0]->last_loss);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ModelJobTest,
    ::testing::ValuesIn(std::vector<Setting>{
        {"OneRank", {}, 1, "ring"},
        {"PerSequenceRing", {}, 2, "ring"},
        {"PerSequenceTwoChunks", {}, 2, "ring", 2},
        {"PerRowAlltoall", {.layout = Layout::kHeadTailPerRow}, 2, "alltoall"},
        {"StripedAllgather", {.layout = Layout::kStriped}, 3, "allgather"},
        {"BalancedPlanned", {.layout = Layout::kBalanced}, 3, "planned"},
        {"BalancedFive", {.layout = Layout::kBalanced}, 5, "planned"},
        {"BalancedPaddedRanks",
         {.layout = Layout::kBalanced, .token_multiple = 8},
         4,
         "planned"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ModelJobFaultTest, SwappedRowsAreFound) {
  Job job{.fault = Fault::kSwap};
  job.Run();
  EXPECT_THAT(job.summaries[0],
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("step 1: loss is "),
                             HasSubstr("must be one device's "))));
  EXPECT_THAT(job.summaries, Each(Not(IsOk())));
  ASSERT_THAT(job.reports, SizeIs(2));
  EXPECT_LE(*job.reports[0].loss_difference, 1e-5);
  EXPECT_GT(*job.reports[1].loss_difference, 1e-4);
}

TEST(ModelJobFaultTest, StaleKeysAndValuesAreFound) {
  for (const char* const exchange : {"ring", "planned"}) {
    Job job{.exchange = exchange, .fault = Fault::kStaleKv};
    job.Run();
    EXPECT_THAT(job.summaries[0], StatusIs(absl::StatusCode::kDataLoss,
                                           HasSubstr("step 1: loss is ")));
  }
}

TEST(ModelJobFaultTest, ALostStepEndsAllRanks) {
  Job job{.spec = {.layout = Layout::kBalanced},
          .cp_size = 3,
          .fault = Fault::kDrop};
  job.Run();
  EXPECT_THAT(job.summaries[2],
              AllOf(StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("rank 2 received step 2; must be 1")),
                    HasReason(kOutOfOrder)));
  EXPECT_THAT(job.summaries, Each(Not(IsOk())));
}

TEST(ModelJobEndTest, FiftyStepsHalveTheLoss) {
  Job job{.num_steps = 50, .learning_rate = 0.005, .tolerance = 1};
  job.Run();
  ASSERT_THAT(job.summaries, Each(IsOk()));
  EXPECT_LE(job.summaries[0]->last_loss, job.summaries[0]->first_loss / 2);
}

TEST(ModelJobEndTest, ALossThatDoesNotFallIsAnError) {
  Job job{.num_steps = 50, .learning_rate = 1e-6};
  job.Run();
  EXPECT_THAT(job.summaries,
              Each(StatusIs(absl::StatusCode::kDataLoss,
                            AllOf(HasSubstr("loss fell from 2.6"),
                                  HasSubstr("must have halved")))));
}

TEST(ModelJobErrorTest, IdsOutsideTheVocabularyAreNamed) {
  Job job{.cp_size = 1};
  job.shape.vocab_size = 5;
  job.Run();
  EXPECT_THAT(job.summaries[0],
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("step 0: row "),
                             HasSubstr("must be in [0, 5)"))));
}

}  // namespace
}  // namespace cpfeed::testing
