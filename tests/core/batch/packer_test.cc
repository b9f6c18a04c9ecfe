#include "core/batch/packer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packer_options.h"
#include "tests/bench/length_mixes.h"
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

std::vector<int64_t> Ids(const PackedRows& packed) {
  return *packed.batch.input_ids.ToInt64();
}
std::vector<int64_t> Labels(const PackedRows& packed) {
  return *packed.batch.labels.ToInt64();
}

// Packs the documents and flushes.
absl::StatusOr<std::vector<PackedRows>> PackAll(
    const std::vector<Document>& documents, const PackOptions& options) {
  CF_ASSIGN_OR_RETURN(Packer packer, Packer::Create(options));
  std::vector<PackedRows> batches;
  const auto take = [&] {
    while (std::optional<PackedRows> packed = packer.Next()) {
      batches.push_back(*std::move(packed));
    }
  };
  for (const Document& document : documents) {
    CF_RETURN_IF_ERROR(packer.Add(document).status());
    take();
  }
  packer.Flush();
  take();
  return batches;
}

Document Doc(std::vector<int64_t> ids) {
  Document document;
  document.input_ids = std::move(ids);
  return document;
}

TEST(PackerTest, WritesSlotsLabelsAndPositions) {
  // input_ids  5 6 7 . 8 9 . .      slots of 4 and 4
  const auto batches = PackAll({Doc({5, 6, 7}), Doc({8, 9})},
                               {.row_width = 8, .slot_multiple = 2});
  ASSERT_THAT(batches, IsOk());
  ASSERT_EQ(batches->size(), 1);
  const PackedRows& packed = batches->front();
  EXPECT_THAT(packed.batch.input_ids.shape, ElementsAre(1, 8));
  EXPECT_THAT(Ids(packed), ElementsAre(5, 6, 7, 0, 8, 9, 0, 0));
  EXPECT_THAT(Labels(packed), ElementsAre(6, 7, kX, kX, 9, kX, kX, kX));
  EXPECT_THAT(packed.batch.position_ids.ToInt64(),
              IsOkAndHolds(ElementsAre(0, 1, 2, 3, 0, 1, 2, 3)));
  EXPECT_THAT(packed.batch.seq_lens->values, ElementsAre(3, 2));
  EXPECT_THAT(packed.batch.seq_lens_padded->values, ElementsAre(4, 4));
  EXPECT_THAT(packed.batch.seq_lens->row_splits, ElementsAre(0, 2));
  EXPECT_EQ(packed.counts.tokens, 5);
  EXPECT_EQ(packed.counts.padding, 3);
  EXPECT_EQ(packed.counts.documents, 2);
  EXPECT_EQ(packed.counts.label_tokens, 3);
  EXPECT_DOUBLE_EQ(packed.counts.FillRatio(), 5.0 / 8);
}

struct TailCase {
  std::string name;
  RowTail row_tail;
  std::vector<int64_t> seq_lens, seq_lens_padded, position_ids;
};

class PackerTailTest : public ::testing::TestWithParam<TailCase> {};

TEST_P(PackerTailTest, TheEndOfARowIsPadding) {
  const auto batches = PackAll(
      {Doc({5, 6, 7})},
      {.row_width = 8, .slot_multiple = 4, .row_tail = GetParam().row_tail});
  ASSERT_THAT(batches, IsOk());
  const PackedBatch& batch = batches->front().batch;
  EXPECT_EQ(batch.seq_lens->values, GetParam().seq_lens);
  EXPECT_EQ(batch.seq_lens_padded->values, GetParam().seq_lens_padded);
  EXPECT_EQ(*batch.position_ids.ToInt64(), GetParam().position_ids);
}

INSTANTIATE_TEST_SUITE_P(
    All, PackerTailTest,
    ::testing::ValuesIn(std::vector<TailCase>{
        {"Extended",
         RowTail::kExtendLastSlot,
         {3},
         {8},
         {0, 1, 2, 3, 4, 5, 6, 7}},
        {"EmptySlot",
         RowTail::kEmptySlot,
         {3, 0},
         {4, 4},
         {0, 1, 2, 3, 0, 1, 2, 3}},
        {"AutoFill", RowTail::kAutoFill, {3}, {4}, {0, 1, 2, 3, 4, 5, 6, 7}},
    }),
    [](const auto& info) { return info.param.name; });

TEST(PackerTest, EndTokenIsATargetAndIsNotDoubled) {
  const auto batches =
      PackAll({Doc({5, 6}), Doc({7, 99})}, {.row_width = 8,
                                            .strategy = PackStrategy::kFirstFit,
                                            .end_token_id = 99});
  ASSERT_THAT(batches, IsOk());
  EXPECT_THAT(Ids(batches->front()), ElementsAre(5, 6, 99, 7, 99, 0, 0, 0));
  EXPECT_THAT(Labels(batches->front()),
              ElementsAre(6, 99, kX, 99, kX, kX, kX, kX));
}

TEST(PackerTest, LabelsThatADocumentBringsAreKept) {
  Document document = Doc({5, 6, 7});
  document.labels = {kX, 7, kX};
  const auto batches =
      PackAll({document}, {.row_width = 4, .end_token_id = 99});
  ASSERT_THAT(batches, IsOk());
  EXPECT_THAT(Ids(batches->front()), ElementsAre(5, 6, 7, 0));
  EXPECT_THAT(Labels(batches->front()), ElementsAre(kX, 7, kX, kX));
}

TEST(PackerTest, RefusesAnotherNumberOfLabels) {
  Document document = Doc({5, 6, 7});
  document.labels = {6, 7};
  EXPECT_THAT(PackAll({document}, {.row_width = 4}),
              AllOf(HasReason(kShapeMismatch),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("2 labels and 3 tokens"))));
}

TEST(PackerTest, RefusesALossMask) {
  Document document = Doc({5, 6});
  document.loss_mask = {0, 1};
  EXPECT_THAT(PackAll({document}, {.row_width = 4}),
              AllOf(HasReason(kMaskNotSupported),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("must have labels of -100"))));
}

TEST(PackerTest, LongDocumentIsRefusedByDefault) {
  EXPECT_THAT(PackAll({Doc({1, 2, 3, 4})}, {.row_width = 4}), IsOk());
  EXPECT_THAT(
      PackAll({Doc({1, 2, 3, 4})}, {.row_width = 4, .end_token_id = 9}),
      AllOf(HasReason(kBatchTooLarge),
            StatusIs(absl::StatusCode::kInvalidArgument,
                     HasSubstr("document has 5 tokens with its end token; "
                               "must be at most row_width = 4"))));
}

TEST(PackerTest, LongDocumentIsDroppedAndCounted) {
  auto packer =
      Packer::Create({.row_width = 4, .long_documents = LongDocuments::kDrop});
  ASSERT_THAT(packer, IsOk());
  EXPECT_THAT(packer->Add(Doc({1, 2, 3, 4, 5})), IsOkAndHolds(0));
  EXPECT_THAT(packer->Add(Doc({6})), IsOkAndHolds(1));
  EXPECT_THAT(packer->Add(Doc({})), IsOkAndHolds(0));
  packer->Flush();
  EXPECT_THAT(Ids(*packer->Next()), ElementsAre(6, 0, 0, 0));
  EXPECT_FALSE(packer->Next().has_value());
  EXPECT_EQ(packer->losses().dropped_documents, 1);
  EXPECT_EQ(packer->losses().dropped_tokens, 5);
  EXPECT_EQ(packer->losses().empty_documents, 1);
}

TEST(PackerTest, LongDocumentIsCutBehindTheShift) {
  // The target of a piece's last token is the next piece's first token.
  const auto batches = PackAll(
      {Doc({1, 2, 3, 4, 5})},
      {.row_width = 2, .rows = 3, .long_documents = LongDocuments::kCut});
  ASSERT_THAT(batches, IsOk());
  EXPECT_THAT(Ids(batches->front()), ElementsAre(1, 2, 3, 4, 5, 0));
  EXPECT_THAT(Labels(batches->front()), ElementsAre(2, 3, 4, 5, kX, kX));
  EXPECT_THAT(batches->front().batch.seq_lens->values, ElementsAre(2, 2, 1));
  EXPECT_EQ(batches->front().counts.sequences, 3);
  EXPECT_EQ(batches->front().counts.documents, 1);
}

TEST(PackerTest, PieceOfADocumentGoesOnInTheNext) {
  Document piece = Doc({1, 2});
  piece.next_token = 3;
  const auto batches = PackAll(
      {piece, Doc({3})},
      {.row_width = 4, .strategy = PackStrategy::kFirstFit, .end_token_id = 9});
  ASSERT_THAT(batches, IsOk());
  EXPECT_THAT(Ids(batches->front()), ElementsAre(1, 2, 3, 9));
  EXPECT_THAT(Labels(batches->front()), ElementsAre(2, 3, 9, kX));
}

TEST(PackerTest, LastBatchIsFilledWithEmptyRows) {
  const auto batches = PackAll({Doc({1, 2})}, {.row_width = 2, .rows = 2});
  ASSERT_THAT(batches, IsOk());
  ASSERT_EQ(batches->size(), 1);
  EXPECT_THAT(batches->front().batch.seq_lens->values, ElementsAre(2, 0));
  EXPECT_THAT(batches->front().batch.seq_lens_padded->values,
              ElementsAre(2, 2));
  EXPECT_THAT(batches->front().batch.seq_lens->row_splits,
              ElementsAre(0, 1, 2));
}

TEST(PackerTest, LastBatchIsDroppedAndCounted) {
  auto packer = Packer::Create(
      {.row_width = 2, .rows = 2, .last_batch = LastBatch::kDrop});
  ASSERT_THAT(packer, IsOk());
  for (const int64_t id : {1, 2, 3}) {
    ASSERT_THAT(packer->Add(Doc({id, id})), IsOk());
  }
  packer->Flush();
  const auto first = packer->Next();
  ASSERT_TRUE(first.has_value());
  EXPECT_THAT(Ids(*first), ElementsAre(1, 1, 2, 2));
  EXPECT_FALSE(packer->Next().has_value());
  EXPECT_EQ(packer->losses().dropped_documents, 1);
  EXPECT_EQ(packer->losses().dropped_tokens, 2);
}

struct BadOptions {
  std::string name;
  PackOptions options;
  std::string reason;
  std::string message;
};

class PackOptionsErrorTest : public ::testing::TestWithParam<BadOptions> {};

TEST_P(PackOptionsErrorTest, IsRefused) {
  EXPECT_THAT(Packer::Create(GetParam().options),
              AllOf(HasReason(GetParam().reason),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, PackOptionsErrorTest,
    ::testing::ValuesIn(std::vector<BadOptions>{
        {"NoRowWidth", {}, kBadOption, "row_width is 0; must be at least 1"},
        {"NoRows", {.row_width = 8, .rows = 0}, kBadOption, "rows is 0"},
        {"NegativeMultiple",
         {.row_width = 8, .slot_multiple = -2},
         kBadOption,
         "slot_multiple is -2"},
        {"NoLookahead",
         {.row_width = 8, .lookahead_tokens = 0},
         kBadOption,
         "lookahead_tokens is 0"},
        {"WidthNotDivisible",
         {.row_width = 10, .slot_multiple = 4},
         kNotDivisible,
         "row_width is 10; must be a multiple of slot_multiple = 4"},
        {"TooManyTokens",
         {.row_width = int64_t{1} << 30, .rows = 2},
         kBadOption,
         "2 * 1073741824; must be below 2^31"},
        {"Overflow",
         {.row_width = int64_t{1} << 40, .rows = int64_t{1} << 40},
         kBadOption,
         "must be below 2^31"},
    }),
    [](const auto& info) { return info.param.name; });

// Documents whose tokens say where they come from: document * 1000 + position.
std::vector<Document> RandomDocuments(std::mt19937& random, int64_t count,
                                      int64_t max_length) {
  std::vector<Document> documents;
  for (int64_t d = 0; d < count; ++d) {
    std::vector<int64_t> ids(1 + random() % max_length);
    std::iota(ids.begin(), ids.end(), d * 1000);
    documents.push_back(Doc(std::move(ids)));
  }
  return documents;
}

struct PropertyCase {
  std::string name;
  PackOptions options;
  int64_t max_length;
};

class PackerPropertyTest : public ::testing::TestWithParam<PropertyCase> {};

// Every token once, in one slot per document, with its successor as its label;
// slots are tight multiples and sum to the row.
TEST_P(PackerPropertyTest, KeepsEveryDocumentWholeExactlyOnce) {
  const PackOptions& options = GetParam().options;
  std::mt19937 random(4);
  const auto documents = RandomDocuments(random, 500, GetParam().max_length);
  const auto batches = PackAll(documents, options);
  ASSERT_THAT(batches, IsOk());
  std::vector<int> seen(documents.size());
  for (const PackedRows& packed : *batches) {
    const auto ids = Ids(packed), labels = Labels(packed);
    const RaggedLengths& real = *packed.batch.seq_lens;
    const RaggedLengths& padded = *packed.batch.seq_lens_padded;
    EXPECT_EQ(real.row_splits, padded.row_splits);
    for (int64_t row = 0; row < options.rows; ++row) {
      int64_t at = row * options.row_width;
      for (int64_t i = real.row_splits[row]; i < real.row_splits[row + 1];
           ++i) {
        EXPECT_EQ(padded.values[i] % options.slot_multiple, 0);
        ASSERT_LE(real.values[i], padded.values[i]);
        if (real.values[i] > 0) {
          const int64_t document = ids[at] / 1000;
          const auto& expected = documents[document].input_ids;
          ++seen[document];
          ASSERT_EQ(real.values[i], expected.size());
          for (int64_t k = 0; k < real.values[i]; ++k) {
            EXPECT_EQ(ids[at + k], expected[k]);
            EXPECT_EQ(labels[at + k],
                      k + 1 < real.values[i] ? expected[k + 1] : kX);
          }
        }
        for (int64_t k = real.values[i]; k < padded.values[i]; ++k) {
          EXPECT_EQ(ids[at + k], options.padding_token_id);
          EXPECT_EQ(labels[at + k], kX);
        }
        at += padded.values[i];
      }
      EXPECT_EQ(at, (row + 1) * options.row_width);
    }
  }
  EXPECT_EQ(seen, std::vector<int>(documents.size(), 1));
}

// No document waits for more than three rounds.
TEST_P(PackerPropertyTest, DocumentsLeaveInBoundedTime) {
  const PackOptions& options = GetParam().options;
  std::mt19937 random(5);
  const auto documents = RandomDocuments(random, 500, GetParam().max_length);
  auto packer = Packer::Create(options);
  ASSERT_THAT(packer, IsOk());
  const int64_t per_batch = options.rows * options.row_width;
  const int64_t round =
      std::max<int64_t>(1, options.lookahead_tokens / per_batch) * per_batch;
  std::vector<int64_t> begins;  // Slots added before each document.
  int64_t added = 0;
  for (const Document& document : documents) {
    begins.push_back(added);
    added += RoundUp(document.input_ids.size(), options.slot_multiple);
    ASSERT_THAT(packer->Add(document), IsOk());
    while (const auto packed = packer->Next()) {
      const auto ids = Ids(*packed);
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] == options.padding_token_id) continue;
        EXPECT_LE(added - begins[ids[i] / 1000], 4 * round);
      }
    }
  }
}

TEST_P(PackerPropertyTest, GoesOnFromAnyBatch) {
  const PackOptions& options = GetParam().options;
  std::mt19937 random(6);
  const auto documents = RandomDocuments(random, 200, GetParam().max_length);
  auto whole = Packer::Create(options);
  ASSERT_THAT(whole, IsOk());
  std::vector<std::vector<int64_t>> batches;
  std::vector<PackerPosition> positions = {whole->position()};
  const auto take = [&] {
    while (const auto packed = whole->Next()) {
      batches.push_back(Ids(*packed));
      positions.push_back(whole->position());
    }
  };
  for (const Document& document : documents) {
    ASSERT_THAT(whole->Add(document), IsOkAndHolds(1));
    take();
  }
  whole->Flush();
  take();
  ASSERT_GT(batches.size(), 3);
  for (size_t begin = 0; begin < positions.size(); ++begin) {
    // Numbers count from the first document that is still needed.
    PackerPosition position = positions[begin];
    const int64_t first =
        position.held.empty() ? position.next : position.held.front();
    for (int64_t& held : position.held) held -= first;
    position.next -= first;
    auto packer = Packer::Create(options);
    ASSERT_THAT(packer, IsOk());
    packer->Restore(position);
    std::vector<std::vector<int64_t>> rest;
    for (size_t d = first; d < documents.size(); ++d) {
      ASSERT_THAT(packer->Add(documents[d]), IsOk());
      while (const auto packed = packer->Next()) rest.push_back(Ids(*packed));
    }
    packer->Flush();
    while (const auto packed = packer->Next()) rest.push_back(Ids(*packed));
    EXPECT_EQ(rest, std::vector<std::vector<int64_t>>(batches.begin() + begin,
                                                      batches.end()))
        << "from batch " << begin;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PackerPropertyTest,
    ::testing::ValuesIn(std::vector<PropertyCase>{
        {"FirstFit",
         {.row_width = 64,
          .rows = 2,
          .strategy = PackStrategy::kFirstFit,
          .lookahead_tokens = 512,
          .padding_token_id = -1},
         40},
        {"BestFit",
         {.row_width = 64,
          .rows = 2,
          .lookahead_tokens = 512,
          .padding_token_id = -1},
         40},
        {"BestFitCp3",
         {.row_width = 66,
          .rows = 3,
          .slot_multiple = 6,
          .lookahead_tokens = 700,
          .padding_token_id = -1},
         66},
        {"OneBatchAhead",
         {.row_width = 64, .lookahead_tokens = 1, .padding_token_id = -1},
         64},
        {"JustAboveHalfRows",
         {.row_width = 64,
          .slot_multiple = 34 - 2,
          .lookahead_tokens = 256,
          .padding_token_id = -1},
         64},
        {"EmptySlots",
         {.row_width = 64,
          .slot_multiple = 4,
          .lookahead_tokens = 512,
          .row_tail = RowTail::kEmptySlot,
          .padding_token_id = -1},
         50},
        {"Balanced",
         {.row_width = 64,
          .rows = 2,
          .strategy = PackStrategy::kBalanced,
          .lookahead_tokens = 512,
          .padding_token_id = -1},
         64},
        {"BalancedOneRowAhead",
         {.row_width = 64,
          .slot_multiple = 4,
          .strategy = PackStrategy::kBalanced,
          .lookahead_tokens = 1,
          .padding_token_id = -1},
         64},
        {"AllAhead", {.row_width = 64, .rows = 5, .padding_token_id = -1}, 64},
    }),
    [](const auto& info) { return info.param.name; });

TEST(PackerTest, BestFitDecreasingFillsRowsOfMixedDocuments) {
  std::mt19937 random(7);
  std::vector<Document> documents;
  for (int i = 0; i < 4000; ++i) {
    const double length = std::lognormal_distribution<>(5.5, 1.0)(random);
    documents.push_back(
        Doc(std::vector<int64_t>(std::clamp<int64_t>(length, 1, 4096), 1)));
  }
  std::map<PackStrategy, PackCounts> counts;
  for (const PackStrategy strategy :
       {PackStrategy::kFirstFit, PackStrategy::kBestFitDecreasing}) {
    const auto batches = PackAll(documents, {.row_width = 4096,
                                             .strategy = strategy,
                                             .lookahead_tokens = 1 << 18,
                                             .last_batch = LastBatch::kDrop});
    ASSERT_THAT(batches, IsOk());
    // Without the end, where nothing more comes to fill the rows.
    for (size_t i = 0; i + 64 < batches->size(); ++i) {
      counts[strategy] += (*batches)[i].counts;
    }
  }
  EXPECT_GT(counts[PackStrategy::kFirstFit].FillRatio(), 0.95);
  EXPECT_GT(counts[PackStrategy::kBestFitDecreasing].FillRatio(), 0.995);
}

// Rows that one step has to wait for should be alike.
class BalancedPackTest : public ::testing::TestWithParam<std::string> {
 protected:
  static PackCounts Pack(const std::vector<Document>& documents,
                         PackStrategy strategy) {
    const auto batches =
        PackAll(documents, {.row_width = 32768,
                            .rows = 4,
                            .strategy = strategy,
                            .lookahead_tokens = int64_t{1} << 21,
                            .long_documents = LongDocuments::kCut,
                            .last_batch = LastBatch::kDrop});
    EXPECT_THAT(batches, IsOk());
    PackCounts counts;
    // Without the end, where nothing more comes to fill the rows.
    for (size_t i = 0; i + 20 < batches->size(); ++i) {
      counts += (*batches)[i].counts;
    }
    return counts;
  }
};

TEST_P(BalancedPackTest, FillsRowsAndMakesTheRowsOfABatchAlike) {
  std::mt19937_64 random(11);
  std::vector<Document> documents;
  for (const int64_t length :
       bench::DrawPack(GetParam(), int64_t{1} << 23, random)) {
    documents.push_back(Doc(std::vector<int64_t>(length, 1)));
  }
  const PackCounts balanced = Pack(documents, PackStrategy::kBalanced);
  const PackCounts tight = Pack(documents, PackStrategy::kBestFitDecreasing);
  EXPECT_GT(balanced.batches, 30);
  // prolong has no document below 575 tokens to fill gaps with.
  EXPECT_GE(balanced.FillRatio(), GetParam() == "prolong" ? 0.99 : 0.995);
  RecordProperty("balanced", absl::StrCat(balanced.AreaImbalance()));
  RecordProperty("tight", absl::StrCat(tight.AreaImbalance()));
  EXPECT_LE(balanced.AreaImbalance() - 1, (tight.AreaImbalance() - 1) / 2);
}

INSTANTIATE_TEST_SUITE_P(Mixes, BalancedPackTest,
                         ::testing::ValuesIn(bench::LengthMixes()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace cpfeed
