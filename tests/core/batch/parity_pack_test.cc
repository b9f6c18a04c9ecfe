#include "core/batch/parity_pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/batch/parity_pack_collate.h"
#include "core/batch/parity_pack_sample.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kX = -100;

// Samples of these lengths; tokens count up through all of them from 1.
std::vector<ParitySample> Samples(const std::vector<int64_t>& lengths) {
  std::vector<ParitySample> samples;
  int64_t next = 1;
  for (const int64_t length : lengths) {
    std::vector<int64_t> ids(length);
    std::iota(ids.begin(), ids.end(), next);
    next += length;
    ParitySample& sample = samples.emplace_back();
    sample.Set("input_ids", ids);
    sample.Set("labels", ids);
  }
  return samples;
}

struct LengthsCase {
  std::string name;
  std::vector<int64_t> lengths;
  int64_t size;
  int64_t cp_size;
  std::vector<std::vector<int64_t>> seq_lens, seq_lens_padded;  // Per pack.
};

class ParityPackLengthsTest : public ::testing::TestWithParam<LengthsCase> {};

TEST_P(ParityPackLengthsTest, LastSlotTakesTheRest) {
  const LengthsCase& c = GetParam();
  for (const Parity parity : {Parity::kAutomodel04, Parity::kAutomodel07}) {
    const auto packs = PackDataset(
        Samples(c.lengths),
        {.packed_sequence_size = c.size, .cp_size = c.cp_size}, parity);
    ASSERT_THAT(packs, IsOk());
    std::vector<std::vector<int64_t>> seq_lens, seq_lens_padded;
    for (const ParityPack& pack : *packs) {
      seq_lens.push_back(pack.seq_lens);
      seq_lens_padded.push_back(pack.seq_lens_padded);
    }
    EXPECT_EQ(seq_lens, c.seq_lens);
    EXPECT_EQ(seq_lens_padded, c.seq_lens_padded);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ParityPackLengthsTest,
    ::testing::ValuesIn(std::vector<LengthsCase>{
        {"NoCp", {3, 4, 2, 5}, 10, 1, {{3, 4, 2}, {5}}, {{3, 4, 3}, {10}}},
        {"Cp2", {3, 5}, 16, 2, {{3, 5}}, {{4, 12}}},
        {"Cp2Short", {3, 2, 1}, 20, 2, {{3, 2, 1}}, {{4, 4, 12}}},
        {"Cp4", {5}, 16, 4, {{5}}, {{16}}},
        {"SizeNotDivisible", {5}, 10, 2, {{5}}, {{10}}},
        {"EmptySample", {0, 3}, 4, 1, {{0, 3}}, {{0, 4}}},
        {"ExactlyFull", {4, 4}, 4, 1, {{4}, {4}}, {{4}, {4}}},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ParityPackTest, PositionsGoOnThroughThePadding) {
  const auto packs =
      PackDataset(Samples({3, 4, 2, 5}), {.packed_sequence_size = 10},
                  Parity::kAutomodel04);
  ASSERT_THAT(packs, IsOk());
  ASSERT_EQ(packs->size(), 2);
  EXPECT_THAT((*packs)[0].input_ids, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 0));
  EXPECT_THAT((*packs)[0].position_ids,
              ElementsAre(0, 1, 2, 0, 1, 2, 3, 0, 1, 2));
}

TEST(ParityPackTest, LossMaskBecomesLabels) {
  auto samples = Samples({3});
  samples[0].Set("loss_mask", {0, 1, 0});
  const auto packs =
      PackDataset(samples, {.packed_sequence_size = 4}, Parity::kAutomodel07);
  ASSERT_THAT(packs, IsOk());
  EXPECT_THAT(packs->front().labels, ElementsAre(kX, 2, kX, kX));
}

TEST(ParityPackTest, MaxPacksIgnoresWhatFollows) {
  for (const auto& [max_packs, expected] :
       std::vector<std::pair<int64_t, size_t>>{{1, 1}, {2, 2}, {9, 3}}) {
    const auto packs = PackDataset(
        Samples({4, 4, 4}), {.packed_sequence_size = 4, .max_packs = max_packs},
        Parity::kAutomodel04);
    ASSERT_THAT(packs, IsOk());
    EXPECT_EQ(packs->size(), expected);
  }
}

// With the last pack closed the release stops before it would corrupt.
TEST(ParityPackTest, MaxPacksComesBeforeTheSampleThatDoesNotFit) {
  EXPECT_THAT(
      PackDataset(Samples({3, 10}),
                  {.packed_sequence_size = 10, .max_packs = 1, .cp_size = 2},
                  Parity::kAutomodel04),
      IsOk());
}

struct ErrorCase {
  std::string name;
  std::vector<int64_t> lengths;
  ParityPackOptions options;
  std::string reason, message;
};

class ParityPackErrorTest : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(ParityPackErrorTest, NamesSampleAndBothValues) {
  EXPECT_THAT(PackDataset(Samples(GetParam().lengths), GetParam().options,
                          Parity::kAutomodel07),
              AllOf(HasReason(GetParam().reason),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, ParityPackErrorTest,
    ::testing::ValuesIn(std::vector<ErrorCase>{
        {"TooLong",
         {4, 12},
         {.packed_sequence_size = 8, .drop_long_samples = false},
         "ValueError",
         "sample 1 is too long: it has 12 tokens; must be at most "
         "packed_sequence_size = 8"},
        {"NoPacks",
         {9},
         {.packed_sequence_size = 8},
         "ValueError",
         "no packs were produced from 1 samples"},
        {"NoPacksAllowed",
         {9, 3},
         {.packed_sequence_size = 10, .max_packs = 0, .cp_size = 2},
         "ValueError",
         "no packs were produced"},
        {"FirstTooLongForCp",
         {9},
         {.packed_sequence_size = 10, .cp_size = 2},
         "IndexError",
         "sample 0: has 12 tokens when padded to a multiple of 4; must be at "
         "most packed_sequence_size = 10"},
        {"LaterTooLongForCp",
         {3, 10, 4},
         {.packed_sequence_size = 10, .cp_size = 2},
         kNotDivisible,
         "sample 1: has 12 tokens when padded to a multiple of 4"},
        {"MultipleOfZero",
         {3},
         {.packed_sequence_size = 8, .pad_to_multiple_of = 0},
         "ValueError",
         "pad_to_multiple_of, which is 0"},
        {"CpSizeTooLarge",
         {3},
         {.packed_sequence_size = 8, .cp_size = int64_t{1} << 62},
         kBadOption,
         "cp_size is 4611686018427387904; must be below 2^31"},
        {"SizeTooLarge",
         {3},
         {.packed_sequence_size = int64_t{1} << 31},
         kBadOption,
         "packed_sequence_size is 2147483648"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(ParityPackTest, LabelsMustMatchTokens) {
  auto samples = Samples({3});
  samples[0].Set("labels", {1, 2});
  EXPECT_THAT(
      PackDataset(samples, {.packed_sequence_size = 8}, Parity::kAutomodel04),
      AllOf(HasReason(kShapeMismatch),
            StatusIs(absl::StatusCode::kInvalidArgument,
                     HasSubstr("sample 0 has 2 labels and 3 tokens"))));
  samples[0].Set("loss_mask", {1, 1, 0});
  EXPECT_THAT(
      PackDataset(samples, {.packed_sequence_size = 8}, Parity::kAutomodel04),
      HasReason("IndexError"));
  EXPECT_THAT(PackDataset({ParitySample()}, {.packed_sequence_size = 8},
                          Parity::kAutomodel04),
              HasReason("KeyError"));
}

// Two un-packed samples with masks: rows of the longest one.
TEST(ParityCollateTest, UnpackedSamplesBecomeRows) {
  ParitySample a, b;
  a.Set("input_ids", {1, 2, 3});
  a.Set("labels", {10, 20, 30});
  a.Set("attention_mask", {1, 1, 1});
  b.Set("input_ids", {4, 5, 6, 7, 8});
  b.Set("labels", {40, 50, 60, 70, 80});
  b.Set("attention_mask", {1, 1, 1, 1, 1});
  const auto batch = PackedSequenceThdCollate({a, b});
  ASSERT_THAT(batch, IsOk());
  ASSERT_EQ(batch->tensors.size(), 5);
  const auto values = [&](int i) { return batch->tensors[i].tensor.ToInt64(); };
  EXPECT_THAT(values(0),
              IsOkAndHolds(ElementsAre(1, 2, 3, 0, 0, 4, 5, 6, 7, 8)));
  EXPECT_THAT(values(1), IsOkAndHolds(ElementsAre(10, 20, 30, kX, kX, 40, 50,
                                                  60, 70, 80)));
  EXPECT_THAT(values(2),
              IsOkAndHolds(ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 3, 4)));
  EXPECT_THAT(values(3), IsOkAndHolds(ElementsAre(3, 5)));
  EXPECT_THAT(values(4), IsOkAndHolds(ElementsAre(5, 5)));
}

TEST(ParityCollateTest, PackedRowsGetSentinels) {
  auto packs = PackDataset(Samples({3, 2, 6}), {.packed_sequence_size = 6},
                           Parity::kAutomodel04);
  ASSERT_THAT(packs, IsOk());
  const auto batch =
      PackedSequenceThdCollate({ToSample((*packs)[0]), ToSample((*packs)[1])});
  ASSERT_THAT(batch, IsOk());
  EXPECT_THAT(batch->tensors[3].tensor.ToInt64(),
              IsOkAndHolds(ElementsAre(3, 2, 6, -1000)));
  EXPECT_THAT(batch->tensors[4].tensor.ToInt64(),
              IsOkAndHolds(ElementsAre(3, 3, 6, -1000)));
  EXPECT_EQ(batch->qkv_format, "thd");
}

TEST(ParityCollateTest, UnknownFieldsRepeatTheFirstSamplesLastEntry) {
  ParitySample a, b;
  a.Set("token_type", {1, 7});
  b.Set("token_type", {2});
  const auto batch = DefaultCollate({a, b}, 3, Parity::kAutomodel04);
  ASSERT_THAT(batch, IsOk());
  ASSERT_EQ(batch->tensors.size(), 1);
  EXPECT_THAT(batch->tensors[0].tensor.ToInt64(),
              IsOkAndHolds(ElementsAre(1, 7, 7, 2, 7, 7)));
}

TEST(ParityCollateTest, NumbersAreStackedFrom07On) {
  ParitySample sample;
  sample.fields.push_back({"dataset_id", {5}, false});
  const auto batch =
      DefaultCollate({sample, sample}, std::nullopt, Parity::kAutomodel07);
  ASSERT_THAT(batch, IsOk());
  EXPECT_THAT(batch->tensors[0].tensor.shape, ElementsAre(2));
  EXPECT_THAT(batch->tensors[0].tensor.ToInt64(),
              IsOkAndHolds(ElementsAre(5, 5)));
  EXPECT_THAT(DefaultCollate({sample}, std::nullopt, Parity::kAutomodel04),
              HasReason("TypeError"));
}

TEST(ParityCollateTest, RefusesWhatTheReleaseRaisesOn) {
  EXPECT_THAT(DefaultCollate({}, std::nullopt, Parity::kAutomodel04),
              HasReason("IndexError"));
  EXPECT_THAT(DefaultCollate(Samples({2}), -4, Parity::kAutomodel07),
              AllOf(HasReason(kBadOption),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("pad_seq_len_divisible is -4"))));
  EXPECT_THAT(DefaultCollate({Samples({2})[0], ParitySample()}, 4,
                             Parity::kAutomodel07),
              AllOf(HasReason("KeyError"),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("sample 1: sample has no input_ids"))));
}

}  // namespace
}  // namespace cpfeed
