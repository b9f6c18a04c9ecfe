#include "client/documents/document_source.h"

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

std::unique_ptr<DocumentSource> Source(const Lists& documents,
                                       DocumentSourceOptions options) {
  if (options.max_tokens == 0) options.max_tokens = 1000;
  auto source =
      DocumentSource::Create(std::make_unique<MemoryStore>(documents), options);
  EXPECT_THAT(source, IsOk());
  return *std::move(source);
}

// Everything up to the last epoch's end; epochs behind each other.
Lists Rest(DocumentSource& source) {
  Lists rest;
  do {
    while (true) {
      const auto document = source.Next();
      EXPECT_THAT(document, IsOk());
      if (!document.ok() || !document->has_value()) break;
      rest.push_back((*document)->input_ids);
    }
  } while (source.NextEpoch());
  return rest;
}

TEST(DocumentSourceTest, GivesDocumentsInOrderEpochByEpoch) {
  const Lists documents = {{1, 2}, {}, {3}};
  const auto source = Source(documents, {.epochs = 2});
  EXPECT_EQ(Rest(*source), (Lists{{1, 2}, {}, {3}, {1, 2}, {}, {3}}));
  EXPECT_EQ(source->place().epoch, 1);
  EXPECT_FALSE(source->NextEpoch());
}

TEST(DocumentSourceTest, WithoutEndThereIsAlwaysANextEpoch) {
  const auto source = Source({{1}}, {.epochs = 0});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(source->NextEpoch());
}

TEST(DocumentSourceTest, ShufflesEachEpochAnew) {
  const Lists documents = CountingDocuments(50, 5);
  const Lists all = Rest(*Source(documents, {.shuffle = true, .epochs = 2}));
  const Lists first(all.begin(), all.begin() + 50);
  const Lists second(all.begin() + 50, all.end());
  EXPECT_NE(first, documents);
  EXPECT_NE(first, second);
  for (Lists epoch : {first, second}) {
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(epoch, documents);
  }
  EXPECT_EQ(Rest(*Source(documents, {.shuffle = true, .epochs = 2})), all);
  EXPECT_NE(Rest(*Source(documents, {.shuffle = true, .seed = 1, .epochs = 2})),
            all);
}

TEST(DocumentSourceTest, CutsLongDocumentsIntoPieces) {
  const auto source =
      Source({{1, 2, 3, 4, 5}, {6, 7}},
             {.max_tokens = 2, .long_documents = LongDocuments::kCut});
  const auto piece = source->Next();
  ASSERT_THAT(piece, IsOk());
  EXPECT_THAT((*piece)->input_ids, ElementsAre(1, 2));
  EXPECT_EQ((*piece)->next_token, 3);
  EXPECT_EQ(Rest(*source), (Lists{{3, 4}, {5}, {6, 7}}));
  EXPECT_EQ(source->losses().cut_documents, 1);
}

TEST(DocumentSourceTest, DropsLongDocumentsAndCountsThem) {
  const auto source =
      Source({{1, 2, 3}, {6, 7}, {1, 2, 3, 4}},
             {.max_tokens = 2, .long_documents = LongDocuments::kDrop});
  EXPECT_EQ(Rest(*source), (Lists{{6, 7}}));
  EXPECT_EQ(source->losses().dropped_documents, 2);
  EXPECT_EQ(source->losses().dropped_tokens, 7);
}

TEST(DocumentSourceTest, RefusesLongDocumentsByName) {
  const auto source = Source({{6, 7}, {1, 2, 3}}, {.max_tokens = 2});
  EXPECT_THAT(source->Next(), IsOk());
  EXPECT_THAT(source->Next(),
              AllOf(HasReason(kBatchTooLarge),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("document 1: document has 3 tokens; "
                                       "must be at most 2"))));
}

TEST(DocumentSourceTest, GoesOnFromAnyPlace) {
  const Lists documents = CountingDocuments(12, 9);
  for (const bool shuffle : {false, true}) {
    const DocumentSourceOptions options{.shuffle = shuffle,
                                        .seed = 3,
                                        .epochs = 2,
                                        .max_tokens = 4,
                                        .long_documents = LongDocuments::kCut};
    const Lists all = Rest(*Source(documents, options));
    const auto source = Source(documents, options);
    size_t given = 0;
    do {
      while (true) {
        const auto restored = Source(documents, options);
        ASSERT_THAT(restored->Restore(source->StateAt(source->place())),
                    IsOk());
        EXPECT_EQ(Rest(*restored), Lists(all.begin() + given, all.end()));
        if (!(*source->Next()).has_value()) break;
        ++given;
      }
    } while (source->NextEpoch());
    EXPECT_EQ(given, all.size());
  }
}

struct OtherCase {
  std::string name;
  DocumentSourceOptions options;
  uint64_t fingerprint;
  std::string message;
};

class DocumentSourceRestoreTest : public ::testing::TestWithParam<OtherCase> {};

TEST_P(DocumentSourceRestoreTest, RefusesAnotherSource) {
  const auto source = Source({{1}}, {.shuffle = true, .seed = 5});
  const auto other = DocumentSource::Create(
      std::make_unique<MemoryStore>(Lists{{1}}, GetParam().fingerprint),
      GetParam().options);
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT((*other)->Restore(source->StateAt({})),
              AllOf(HasReason(kCursorMismatch),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, DocumentSourceRestoreTest,
    ::testing::ValuesIn(std::vector<OtherCase>{
        {"Inputs",
         {.shuffle = true, .seed = 5, .max_tokens = 1000},
         2,
         "inputs = \"1\"; must be \"2\" as here"},
        {"Seed",
         {.shuffle = true, .seed = 6, .max_tokens = 1000},
         1,
         "seed = 5; must be 6"},
        {"Order", {.max_tokens = 1000}, 1, "shuffle = true; must be false"},
        {"Pieces",
         {.shuffle = true, .seed = 5, .max_tokens = 999},
         1,
         "max_tokens = 1000; must be 999"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(DocumentSourceTest, RefusesWhatIsNoState) {
  const auto source = Source({{1}}, {});
  const std::string good = source->StateAt({});
  for (const char* state :
       {"", "{", "[]", "{}", "{\"version\": 1}", "\xff\xfe"}) {
    EXPECT_THAT(source->Restore(state), HasReason(kBadOption)) << state;
  }
  std::string negative = good;
  negative.replace(negative.find("\"position\":0"), 12, "\"position\":-1");
  EXPECT_THAT(source->Restore(negative),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no position that is an integer in")));
  EXPECT_THAT(source->Restore(good), IsOk());
  EXPECT_LT(good.size(), 300);
}

TEST(DocumentSourceTest, RefusesAPieceThatIsNotThere) {
  const auto source = Source({{1, 2}}, {});
  ASSERT_THAT(source->Restore(source->StateAt({.piece = 1})), IsOk());
  EXPECT_THAT(source->Next(),
              AllOf(HasReason(kCursorMismatch),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("piece 1 of document 0, which has only "
                                       "2 tokens"))));
}

TEST(DocumentSourceTest, RefusesOptionsOutOfRange) {
  EXPECT_THAT(DocumentSource::Create(std::make_unique<MemoryStore>(Lists{}),
                                     {.epochs = -1, .max_tokens = 1}),
              AllOf(HasReason(kBadOption),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("epochs is -1; must be at least 0"))));
  EXPECT_THAT(
      DocumentSource::Create(std::make_unique<MemoryStore>(Lists{}), {}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("max_tokens is 0; must be at least 1")));
}

}  // namespace
}  // namespace cpfeed
