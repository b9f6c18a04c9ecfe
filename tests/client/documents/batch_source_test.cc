#include "client/documents/batch_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "tests/client/documents/memory_store.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingDocuments;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::MemoryStore;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Lists = std::vector<std::vector<int64_t>>;

std::unique_ptr<BatchSource> Source(const Lists& documents,
                                    const BatchSourceOptions& options) {
  auto source =
      BatchSource::Create(std::make_unique<MemoryStore>(documents), options);
  EXPECT_THAT(source, IsOk());
  return *std::move(source);
}

// What is in a batch: ids, labels and lengths behind each other.
std::vector<int64_t> Contents(const SourceBatch& batch) {
  std::vector<int64_t> contents = *batch.batch.input_ids.ToInt64();
  for (const auto& more :
       {*batch.batch.labels.ToInt64(), batch.batch.seq_lens->values,
        batch.batch.seq_lens_padded->values}) {
    contents.insert(contents.end(), more.begin(), more.end());
  }
  contents.push_back(batch.epoch);
  return contents;
}

Lists Rest(BatchSource& source) {
  Lists rest;
  while (true) {
    const auto batch = source.Next();
    EXPECT_THAT(batch, IsOk());
    if (!batch.ok() || !batch->has_value()) return rest;
    rest.push_back(Contents(**batch));
  }
}

TEST(BatchSourceTest, PacksDocumentsAndCountsThem) {
  const auto source = Source({{1, 2, 3}, {4, 5}, {6}},
                             {.pack = {.row_width = 4, .end_token_id = 9}});
  const auto first = source->Next();
  ASSERT_THAT(first, IsOk());
  ASSERT_TRUE(first->has_value());
  EXPECT_THAT((*first)->batch.input_ids.ToInt64(),
              testing::IsOkAndHolds(ElementsAre(1, 2, 3, 9)));
  EXPECT_EQ((*first)->counts.documents, 1);
  Rest(*source);
  EXPECT_EQ(source->totals().documents, 3);
  EXPECT_EQ(source->totals().tokens, 9);
  EXPECT_EQ(source->totals().batches, 3);
  EXPECT_EQ(source->totals().padding, 3);
}

TEST(BatchSourceTest, BatchesDoNotCrossEpochs) {
  const Lists documents = CountingDocuments(30, 20);
  const auto source =
      Source(documents, {.pack = {.row_width = 32, .rows = 2}, .epochs = 3});
  std::vector<int64_t> epochs;
  std::vector<int64_t> tokens(3);
  while (true) {
    const auto batch = source->Next();
    ASSERT_THAT(batch, IsOk());
    if (!batch->has_value()) break;
    epochs.push_back((*batch)->epoch);
    tokens.at((*batch)->epoch) += (*batch)->counts.tokens;
  }
  EXPECT_TRUE(std::is_sorted(epochs.begin(), epochs.end()));
  const int64_t all = documents.back().back();
  EXPECT_THAT(tokens, ElementsAre(all, all, all));
}

struct ResumeCase {
  std::string name;
  BatchSourceOptions options;
};

class BatchSourceResumeTest : public ::testing::TestWithParam<ResumeCase> {};

TEST_P(BatchSourceResumeTest, GoesOnFromAnyBatchAsIfItHadNotStopped) {
  const Lists documents = CountingDocuments(60, 40);
  const Lists all = Rest(*Source(documents, GetParam().options));
  ASSERT_GT(all.size(), 10);
  const auto source = Source(documents, GetParam().options);
  for (size_t given = 0; given <= all.size(); ++given) {
    const std::string state = source->State();
    EXPECT_LT(state.size(), 1024);
    const auto resumed = Source(documents, GetParam().options);
    ASSERT_THAT(resumed->Restore(state), IsOk());
    EXPECT_EQ(resumed->State(), state);
    EXPECT_EQ(Rest(*resumed), Lists(all.begin() + given, all.end()))
        << "behind batch " << given << ", state " << state;
    ASSERT_THAT(source->Next(), IsOk());
  }
  // A source that has gone on can go back, too.
  const auto again = Source(documents, GetParam().options);
  const std::string begin = again->State();
  Rest(*again);
  ASSERT_THAT(again->Restore(begin), IsOk());
  EXPECT_EQ(Rest(*again), all);
}

INSTANTIATE_TEST_SUITE_P(
    All, BatchSourceResumeTest,
    ::testing::ValuesIn(std::vector<ResumeCase>{
        {"BestFit",
         {.pack = {.row_width = 64, .rows = 2, .lookahead_tokens = 512},
          .epochs = 2}},
        {"FirstFitShuffled",
         {.pack = {.row_width = 48,
                   .slot_multiple = 8,
                   .strategy = PackStrategy::kFirstFit,
                   .lookahead_tokens = 300},
          .shuffle = true,
          .epochs = 2}},
        {"CutWithEndTokens",
         {.pack = {.row_width = 16,
                   .rows = 3,
                   .lookahead_tokens = 100,
                   .long_documents = LongDocuments::kCut,
                   .end_token_id = 0}}},
        {"DroppedLong",
         {.pack = {.row_width = 24,
                   .lookahead_tokens = 100,
                   .long_documents = LongDocuments::kDrop,
                   .last_batch = LastBatch::kDrop},
          .epochs = 2}},
        {"Parity04",
         {.pack = {.row_width = 64, .rows = 3},
          .parity = Parity::kAutomodel04,
          .cp_size = 2,
          .shuffle = true,
          .epochs = 2}},
        {"Parity07Dropped",
         {.pack = {.row_width = 24,
                   .rows = 2,
                   .long_documents = LongDocuments::kDrop},
          .parity = Parity::kAutomodel07}},
    }),
    [](const auto& info) { return info.param.name; });

TEST(BatchSourceTest, ParityPacksGreedilyInOrder) {
  // Samples of 3, 4, 2 and 5 tokens into rows of 10; the last batch is short.
  const auto source = Source(
      {{1, 2, 3}, {4, 5, 6, 7}, {8, 9}, {10, 11, 12, 13, 14}},
      {.pack = {.row_width = 10, .rows = 4}, .parity = Parity::kAutomodel04});
  const auto batch = source->Next();
  ASSERT_THAT(batch, IsOk());
  EXPECT_THAT((*batch)->batch.input_ids.shape, ElementsAre(2, 10));
  EXPECT_THAT((*batch)->batch.seq_lens->values, ElementsAre(3, 4, 2, 5));
  EXPECT_THAT((*batch)->batch.seq_lens_padded->values,
              ElementsAre(3, 4, 3, 10));
  EXPECT_THAT((*batch)->batch.seq_lens->row_splits, ElementsAre(0, 3, 4));
  EXPECT_THAT((*batch)->batch.labels.ToInt64(),
              testing::IsOkAndHolds(
                  ElementsAre(2, 3, -100, 5, 6, 7, -100, 9, -100, -100, 11, 12,
                              13, 14, -100, -100, -100, -100, -100, -100)));
  EXPECT_EQ((*batch)->counts.padding, 6);
}

TEST(BatchSourceTest, ParityRaisesAsTheRelease) {
  const BatchSourceOptions options{.pack = {.row_width = 4},
                                   .parity = Parity::kAutomodel07};
  EXPECT_THAT(Source({{1}, {1, 2, 3, 4, 5}}, options)->Next(),
              AllOf(HasReason("ValueError"),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("document 1: document has 5 tokens"))));
  EXPECT_THAT(Source({}, options)->Next(), HasReason("ValueError"));
}

TEST(BatchSourceTest, ErrorsNameTheDocument) {
  EXPECT_THAT(
      Source({{1}, {1, 2, 3, 4}}, {.pack = {.row_width = 4, .end_token_id = 9}})
          ->Next(),
      AllOf(HasReason(kBatchTooLarge),
            StatusIs(absl::StatusCode::kInvalidArgument,
                     HasSubstr("document 1: document has 5 tokens with "
                               "its end token"))));
}

TEST(BatchSourceTest, AnEpochWithoutABatchIsAnErrorAndNoLoop) {
  for (const int64_t epochs : {0, 2}) {
    EXPECT_THAT(
        Source(
            {{}, {1, 2, 3, 4, 5}},
            {.pack = {.row_width = 4, .long_documents = LongDocuments::kDrop},
             .epochs = epochs})
            ->Next(),
        AllOf(HasReason(kBatchMalformed),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("epoch 0 of the inputs makes no batch (1 "
                                 "documents were empty, 1 were dropped)"))));
  }
}

TEST(BatchSourceTest, RefusesStatesOfOtherSources) {
  const auto source = Source({{1}}, {.pack = {.row_width = 4}});
  const auto wider = Source({{1}}, {.pack = {.row_width = 8}});
  EXPECT_THAT(wider->Restore(source->State()),
              AllOf(HasReason(kCursorMismatch),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("other options for packing"))));
  const auto other = BatchSource::Create(
      std::make_unique<MemoryStore>(Lists{{1}}, 2), {.pack = {.row_width = 4}});
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT((*other)->Restore(source->State()),
              AllOf(HasReason(kCursorMismatch),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("inputs = \"1\""))));
}

struct BadState {
  std::string name, from, to, message;
};

class BatchSourceStateErrorTest : public ::testing::TestWithParam<BadState> {};

TEST_P(BatchSourceStateErrorTest, IsRefused) {
  const auto source = Source({{1}}, {.pack = {.row_width = 4}});
  std::string state = source->State();
  ASSERT_NE(state.find(GetParam().from), std::string::npos) << state;
  state.replace(state.find(GetParam().from), GetParam().from.size(),
                GetParam().to);
  EXPECT_THAT(
      source->Restore(state),
      AllOf(HasReason(kBadOption), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, BatchSourceStateErrorTest,
    ::testing::ValuesIn(std::vector<BadState>{
        {"NoJson", "{", "", "no JSON object of version 1"},
        {"Version", "\"version\":1", "\"version\":2", "version 1"},
        {"HeldMissing", "\"held\"", "\"hold\"", "state has no held"},
        {"HeldNoList", "\"held\":[]", "\"held\":5",
         "held of the state is no list"},
        {"HeldNoNumber", "\"held\":[]", "\"held\":[\"x\"]",
         "held of the state is no integer"},
        {"HeldDescends", "\"held\":[]", "\"held\":[2,0]", "does not ascend"},
        {"HeldBehindNext", "\"held\":[]", "\"held\":[3]",
         "next of the state is 0; must be above all held, up to 2"},
        {"NextNegative", "\"next\":0", "\"next\":-1",
         "next of the state is no integer in [0, 2^40]"},
        {"NextHuge", "\"next\":0", "\"next\":99999999999999999999",
         "next of the state is no integer"},
        {"TakenNoNumber", "\"batches_taken\":0", "\"batches_taken\":null",
         "batches_taken of the state is no integer"},
        {"Documents", "\"documents\"", "\"dokuments\"",
         "state has no documents"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(BatchSourceTest, RefusesOptionsThatDoNotGoTogether) {
  EXPECT_THAT(
      BatchSource::Create(
          std::make_unique<MemoryStore>(Lists{{1}}),
          {.pack = {.row_width = 4, .long_documents = LongDocuments::kCut},
           .parity = Parity::kAutomodel04}),
      AllOf(
          HasReason(kBadOption),
          StatusIs(absl::StatusCode::kInvalidArgument,
                   HasSubstr("must be refused or dropped in automodel_0_4"))));
}

}  // namespace
}  // namespace cpfeed
