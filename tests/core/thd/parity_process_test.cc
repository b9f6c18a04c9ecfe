#include "core/thd/parity_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/parity.h"
#include "core/thd/parity_dict.h"
#include "core/thd/parity_thd.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingTensor;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::testing::ElementsAre;

constexpr Parity k04 = Parity::kAutomodel04;
constexpr Parity k07 = Parity::kAutomodel07;

Tensor Ints(Shape shape, std::vector<int64_t> values) {
  return Tensor::FromVector(std::move(shape), std::move(values));
}

// Two rows of 4 with slots of 4 and real lengths 3 and 2.
ParityDict GoodBatch() {
  ParityDict batch;
  batch.Set("input_ids", CountingTensor({2, 4}, 1));
  batch.Set("labels", CountingTensor({2, 4}));
  batch.Set("position_ids", CountingTensor({2, 4}));
  batch.Set("seq_lens", Ints({2, 1}, {3, 2}));
  batch.Set("seq_lens_padded", Ints({2, 1}, {4, 4}));
  return batch;
}

// One row of `ids` without lengths, which 0.7 derives from the pad id.
ParityDict BatchWithoutLengths(std::vector<int64_t> ids) {
  const int64_t width = static_cast<int64_t>(ids.size());
  ParityDict batch;
  batch.Set("input_ids", Ints({1, width}, std::move(ids)));
  batch.Set("labels", CountingTensor({1, width}));
  batch.Set("position_ids", CountingTensor({1, width}));
  batch.Set("seq_lens", PlainValue{"null"});
  batch.Set("seq_lens_padded", PlainValue{"null"});
  return batch;
}

struct Tail {
  std::string name;
  std::vector<int64_t> ids;
  std::vector<int64_t> mask;  // Empty where the release raises ValueError.
};

class MaskWithoutLengthsTest : public ::testing::TestWithParam<Tail> {};

TEST_P(MaskWithoutLengthsTest, PadIdMustFillTheTailAlone) {
  const auto result =
      RunProcessInput(BatchWithoutLengths(GetParam().ids), {.parity = k07});
  if (GetParam().mask.empty()) {
    EXPECT_THAT(result, HasReason("ValueError"));
    return;
  }
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(*result->FindTensor("padding_mask")->ToInt64(), GetParam().mask);
  // Upstream would go on; no mode of ours does without lengths.
  EXPECT_THAT(
      ProcessInputForThd(BatchWithoutLengths(GetParam().ids), {.parity = k07}),
      HasReason("LENGTHS_INCONSISTENT"));
}

INSTANTIATE_TEST_SUITE_P(All, MaskWithoutLengthsTest,
                         ::testing::ValuesIn(std::vector<Tail>{
                             {"Tail", {5, 6, 0, 0}, {0, 0, 1, 1}},
                             {"Inside", {5, 0, 6, 0}, {}},
                             {"All", {0, 0, 0}, {1, 1, 1}},
                             {"None", {1, 2}, {0, 0}},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(ProcessInputForThdTest, ValuesThatAreNoTensorsPassOn) {
  ParityDict batch = GoodBatch();
  batch.Set("qkv_format", PlainValue{"\"thd\""});
  batch.Set("pixels", CountingTensor({3, 3}));
  const auto old_release = ProcessInputForThd(batch, {.parity = k04});
  ASSERT_THAT(old_release, IsOk());
  EXPECT_TRUE(old_release->Has("qkv_format"));
  EXPECT_FALSE(old_release->Has("pixels"));
  const auto release = ProcessInputForThd(batch, {.parity = k07});
  ASSERT_THAT(release, IsOk());
  EXPECT_TRUE(release->Has("qkv_format"));
  EXPECT_THAT(release->FindTensor("pixels")->shape, ElementsAre(3, 3));
}

TEST(ProcessInputForThdTest, SentinelsMayStandAnywhere) {
  ParityDict batch = GoodBatch();
  batch.Set("seq_lens", Ints({2, 2}, {-1000, 3, 2, -1000}));
  const auto result = ProcessInputForThd(batch, {.parity = k07});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(*result->FindTensor("cu_seqlens")->ToInt64(),
              ElementsAre(0, 3, 5));
}

struct BadDict {
  std::string name;
  std::function<void(ParityDict&)> spoil;
  std::string reason04;
  std::string reason07;
  int64_t num_chunks = 1;
};

class ParityErrorTest : public ::testing::TestWithParam<BadDict> {};

TEST_P(ParityErrorTest, HasTheExceptionOrOurReason) {
  ParityDict batch = GoodBatch();
  GetParam().spoil(batch);
  const int64_t num_chunks = GetParam().num_chunks;
  EXPECT_THAT(
      SplitBatchIntoThdChunks(batch, {.parity = k04, .num_chunks = num_chunks}),
      HasReason(GetParam().reason04));
  EXPECT_THAT(
      SplitBatchIntoThdChunks(batch, {.parity = k07, .num_chunks = num_chunks}),
      HasReason(GetParam().reason07));
}

ParityValue None() { return PlainValue{"null"}; }
ParityValue Seven() { return PlainValue{"7"}; }

INSTANTIATE_TEST_SUITE_P(
    All, ParityErrorTest,
    ::testing::ValuesIn(std::vector<BadDict>{
        {"IdsMissing", [](ParityDict& b) { b.Erase("input_ids"); }, "KeyError",
         "KeyError"},
        {"IdsMissingInChunks", [](ParityDict& b) { b.Erase("input_ids"); },
         "KeyError", "KeyError", 2},
        {"IdsNone", [](ParityDict& b) { b.Set("input_ids", None()); },
         "AttributeError", "AttributeError"},
        {"IdsNoneInChunks", [](ParityDict& b) { b.Set("input_ids", None()); },
         "AttributeError", "AttributeError", 2},
        {"IdsOfOneAxis",
         [](ParityDict& b) { b.Set("input_ids", CountingTensor({8})); },
         "IndexError", "IndexError"},
        {"IdsScalarInChunks",
         [](ParityDict& b) { b.Set("input_ids", CountingTensor({})); },
         "IndexError", "IndexError", 2},
        {"IdsEmpty",
         [](ParityDict& b) {
           b.Set("input_ids", CountingTensor({0, 4}));
         },
         "RuntimeError", "RuntimeError"},
        {"IdsWithoutBytes",
         [](ParityDict& b) {
           b.Set("input_ids", Tensor{.dtype = DType::kFloat32,
                                     .shape = {int64_t{1} << 40, 4, 0},
                                     .bytes = {}});
         },
         "SHAPE_MISMATCH", "SHAPE_MISMATCH"},
        {"IdsTooShort",
         [](ParityDict& b) {
           b.Set("input_ids",
                 Tensor{.dtype = DType::kInt64, .shape = {2, 4}, .bytes = {}});
         },
         "SHAPE_MISMATCH", "SHAPE_MISMATCH"},
        {"LabelsNone", [](ParityDict& b) { b.Set("labels", None()); },
         "AttributeError", "AttributeError"},
        {"LabelsDoNotDivide",
         [](ParityDict& b) {
           b.Set("labels", CountingTensor({2, 5}));
         },
         "RuntimeError", "RuntimeError"},
        {"LabelsTwiceAsWide",
         [](ParityDict& b) {
           b.Set("labels", CountingTensor({2, 8}));
         },
         "SHAPE_MISMATCH", "SHAPE_MISMATCH"},
        {"PositionsNumber",
         [](ParityDict& b) { b.Set("position_ids", Seven()); },
         "AttributeError", "AttributeError"},
        {"PositionsNoneInChunks",
         [](ParityDict& b) { b.Set("position_ids", None()); }, "TypeError",
         "TypeError", 2},
        {"PositionsOfNoComponents",
         [](ParityDict& b) {
           b.Set("position_ids", CountingTensor({0, 2, 4}));
         },
         "SHAPE_MISMATCH", "RuntimeError"},
        // Cut on the axis of the components: into unequal pieces, and into
        // pieces that upstream would take for positions of all rows.
        {"OneComponentInTwoChunks",
         [](ParityDict& b) {
           b.Set("position_ids", CountingTensor({1, 2, 4}));
         },
         "RuntimeError", "RuntimeError", 2},
        {"TwoComponentsInTwoChunks",
         [](ParityDict& b) {
           b.Set("position_ids", CountingTensor({2, 2, 4}));
         },
         "SHAPE_MISMATCH", "SHAPE_MISMATCH", 2},
        {"ScalarExtraInChunks",
         [](ParityDict& b) { b.Set("x", CountingTensor({})); }, "IndexError",
         "IndexError", 2},
        {"LengthsNumber", [](ParityDict& b) { b.Set("seq_lens", Seven()); },
         "AttributeError", "AttributeError"},
        {"LengthsNone", [](ParityDict& b) { b.Set("seq_lens", None()); },
         "UnboundLocalError", "LENGTHS_INCONSISTENT"},
        {"LengthsNoneInChunks",
         [](ParityDict& b) { b.Set("seq_lens", None()); }, "UnboundLocalError",
         "TypeError", 2},
        {"SlotsNone", [](ParityDict& b) { b.Set("seq_lens_padded", None()); },
         "UnboundLocalError", "LENGTHS_INCONSISTENT"},
        {"LengthsOfFloats",
         [](ParityDict& b) {
           b.Set("seq_lens", Tensor::FromVector<float>({2, 1}, {3, 2}));
         },
         "BATCH_MALFORMED", "BATCH_MALFORMED"},
        {"LengthsOfOneAxis",
         [](ParityDict& b) {
           b.Set("seq_lens", Ints({2}, {3, 2}));
         },
         "SHAPE_MISMATCH", "SHAPE_MISMATCH"},
        {"LengthsOfThreeRows",
         [](ParityDict& b) {
           b.Set("seq_lens", Ints({3, 1}, {3, 2, -1000}));
         },
         "LENGTHS_INCONSISTENT", "LENGTHS_INCONSISTENT"},
        {"SumsWrap",
         [](ParityDict& b) {
           b.Set("seq_lens", Ints({2, 1}, {INT64_MAX, INT64_MAX}));
         },
         "LENGTHS_INCONSISTENT", "LENGTHS_INCONSISTENT"},
        {"NoChunks", [](ParityDict&) {}, "BAD_OPTION", "BAD_OPTION", 0},
    }),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed
