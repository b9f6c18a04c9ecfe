#include "core/loss/cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "core/comm/loopback_communicator.h"
#include "core/loss/vocab_parallel.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::HasSubstr;

at::Tensor RandomLogits(int64_t rows, int64_t columns,
                        std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, 3);
  at::Tensor logits = at::zeros({rows, columns}, at::kDouble);
  auto* const data = logits.mutable_data_ptr<double>();
  for (int64_t i = 0; i < logits.numel(); ++i) data[i] = normal(random);
  return logits;
}

at::Tensor RandomLabels(int64_t rows, int64_t vocabulary,
                        std::mt19937_64& random) {
  at::Tensor labels = at::zeros({rows}, at::kLong);
  auto* const data = labels.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < rows; ++i) {
    data[i] =
        random() % 3 == 0 ? -100 : static_cast<int64_t>(random() % vocabulary);
  }
  return labels;
}

// Row by row, and its gradients.
struct Slow {
  double sum = 0;
  std::vector<std::vector<double>> gradients;
};

Slow SlowCrossEntropy(const at::Tensor& logits, const at::Tensor& labels) {
  Slow slow;
  for (int64_t row = 0; row < logits.size(0); ++row) {
    std::vector<double> gradient(logits.size(1), 0);
    const int64_t label = labels[row].item<int64_t>();
    if (label >= 0) {
      double total = 0;
      for (int64_t c = 0; c < logits.size(1); ++c) {
        total += std::exp(logits[row][c].item<double>());
      }
      slow.sum += std::log(total) - logits[row][label].item<double>();
      for (int64_t c = 0; c < logits.size(1); ++c) {
        gradient[c] =
            std::exp(logits[row][c].item<double>()) / total - (c == label);
      }
    }
    slow.gradients.push_back(gradient);
  }
  return slow;
}

void ExpectGradient(const Slow& slow, const at::Tensor& gradient,
                    int64_t first_column) {
  for (int64_t row = 0; row < gradient.size(0); ++row) {
    for (int64_t c = 0; c < gradient.size(1); ++c) {
      ASSERT_NEAR(gradient[row][c].item<double>(),
                  slow.gradients[row][first_column + c], 1e-12);
    }
  }
}

TEST(CrossEntropySumTest, IsTheSlowSum) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    const auto rows = static_cast<int64_t>(random() % 8);
    const at::Tensor logits =
        RandomLogits(rows, 7, random).set_requires_grad(true);
    const at::Tensor labels = RandomLabels(rows, 7, random);
    const auto sum = CrossEntropySum(logits, labels);
    ASSERT_THAT(sum, IsOk());
    const Slow slow = SlowCrossEntropy(logits.detach(), labels);
    ASSERT_NEAR(sum->item<double>(), slow.sum, 1e-10);
    torch::autograd::backward({*sum}, {});
    ExpectGradient(slow, logits.grad(), 0);
  }
}

TEST(CrossEntropySumTest, NothingComesOutOfIgnoredRows) {
  const at::Tensor logits =
      at::full({2, 3}, std::numeric_limits<double>::quiet_NaN(), at::kFloat)
          .set_requires_grad(true);
  const auto sum = CrossEntropySum(logits, at::full({2}, -100, at::kLong));
  ASSERT_THAT(sum, IsOk());
  EXPECT_EQ(sum->item<float>(), 0);
  torch::autograd::backward({*sum}, {});
  EXPECT_EQ(logits.grad().abs().sum().item<float>(), 0);
}

// Ranks with unequally many labels: the loss is not a mean of means.
TEST(LossShareTest, SharesSumToTheMeanOverAllLabels) {
  std::mt19937_64 random(2);
  const at::Tensor logits = RandomLogits(9, 5, random);
  const at::Tensor labels = RandomLabels(9, 5, random);
  labels.narrow(0, 6, 3).fill_(-100);  // The last rank has none.
  int64_t count = 0;
  for (int64_t row = 0; row < 9; ++row)
    count += labels[row].item<int64_t>() >= 0;
  double loss = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto share = LossShare(logits.narrow(0, 3 * rank, 3),
                                 labels.narrow(0, 3 * rank, 3), count);
    ASSERT_THAT(share, IsOk());
    loss += share->item<double>();
  }
  EXPECT_NEAR(loss,
              SlowCrossEntropy(logits, labels).sum / static_cast<double>(count),
              1e-12);
}

TEST(LossShareTest, NoLabelsAtAllAreALossOfZero) {
  const auto share =
      LossShare(at::zeros({2, 3}), at::full({2}, -100, at::kLong), 0);
  ASSERT_THAT(share, IsOk());
  EXPECT_EQ(share->item<float>(), 0);
}

TEST(CrossEntropySumTest, WrongInputIsNamed) {
  const at::Tensor logits = at::zeros({2, 3});
  EXPECT_THAT(CrossEntropySum(logits, at::full({2}, 3, at::kLong)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("label of row 0 is 3; must be -100 or in "
                                 "[0, 3)")));
  EXPECT_THAT(CrossEntropySum(logits, at::zeros({3}, at::kLong)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("labels must be int64 of shape [2]")));
  EXPECT_THAT(CrossEntropySum(at::zeros({2}), at::zeros({2}, at::kLong)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("logits must be")));
  EXPECT_THAT(LossShare(logits, at::zeros({2}, at::kLong), -1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("num_label_tokens_global is -1")));
}

// Parts of the vocabulary of unequal width, also of none.
TEST(VocabParallelTest, EveryRankHasTheSlowSumAndItsColumnsOfTheGradient) {
  std::mt19937_64 random(3);
  const std::vector<int64_t> widths = {4, 0, 1, 6};
  const at::Tensor logits = RandomLogits(8, 11, random);
  const at::Tensor labels = RandomLabels(8, 11, random);
  const Slow slow = SlowCrossEntropy(logits, labels);
  auto group = MakeLoopbackGroup(static_cast<int>(widths.size()));
  std::vector<std::thread> threads;
  int64_t begin = 0;
  for (size_t rank = 0; rank < widths.size(); ++rank) {
    threads.emplace_back([&, rank, begin] {
      const std::shared_ptr<Communicator> own = std::move(group[rank]);
      const at::Tensor part =
          logits.narrow(1, begin, widths[rank]).clone().set_requires_grad(true);
      const auto sum = VocabParallelCrossEntropySum(part, labels, own);
      ASSERT_THAT(sum, IsOk());
      EXPECT_NEAR(sum->item<double>(), slow.sum, 1e-10);
      torch::autograd::backward({*sum * 2}, {});
      ExpectGradient(slow, part.grad() / 2, begin);
    });
    begin += widths[rank];
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cpfeed
