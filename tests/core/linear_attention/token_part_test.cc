#include "core/linear_attention/token_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "tests/core/plan/packs.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::OneRow;
using ::testing::ElementsAre;

TEST(PartOfTest, CutsRealTokensEvenly) {
  const PackedLengths lengths = OneRow({5, 0, 3}, {8, 4, 4});
  const TokenPart first = PartOf(lengths, 2, 0);
  EXPECT_EQ(first.begin, 0);
  EXPECT_EQ(first.num_tokens, 4);
  EXPECT_THAT(first.runs, ElementsAre(SequenceRun{0, 0, 4, true, false}));
  const TokenPart second = PartOf(lengths, 2, 1);
  EXPECT_EQ(second.begin, 4);
  EXPECT_THAT(second.runs, ElementsAre(SequenceRun{0, 0, 1, false, true},
                                       SequenceRun{2, 1, 3, true, true}));
}

TEST(PartOfTest, MoreRanksThanTokens) {
  const PackedLengths lengths = OneRow({2});
  int64_t tokens = 0;
  for (int rank = 0; rank < 5; ++rank) {
    tokens += PartOf(lengths, 5, rank).num_tokens;
  }
  EXPECT_EQ(tokens, 2);
}

// Rank 1 goes on with sequence 0, and sequence 2 begins in it; ranks 2 and 3
// have a sequence each.
TEST(OutlinePartsTest, TellsWhatBeginsWhere) {
  EXPECT_THAT(
      OutlineParts(OneRow({5, 0, 1, 3, 3}), 4),
      ElementsAre(PartOutline{0, 3, 0, true}, PartOutline{3, 3, 0, true},
                  PartOutline{6, 3, 6, true}, PartOutline{9, 3, 9, true}));
  // One long sequence, whose parts behind the first have no begin; the empty
  // ones have nothing.
  EXPECT_THAT(
      OutlineParts(OneRow({2}), 4),
      ElementsAre(PartOutline{0, 0, 0, false}, PartOutline{0, 1, 0, true},
                  PartOutline{1, 0, 1, false}, PartOutline{1, 1, 0, false}));
}

// Property: outlines say what the parts themselves say.
TEST(OutlinePartsTest, AreThoseOfTheParts) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const int cp_size = static_cast<int>(random() % 9) + 1;
    std::vector<int64_t> real;
    for (int i = static_cast<int>(random() % 8); i >= 0; --i) {
      real.push_back(static_cast<int64_t>(random() % 7));
    }
    const PackedLengths lengths = OneRow(real);
    const std::vector<PartOutline> outlines = OutlineParts(lengths, cp_size);
    ASSERT_EQ(outlines.size(), cp_size);
    for (int rank = 0; rank < cp_size; ++rank) {
      const TokenPart part = PartOf(lengths, cp_size, rank);
      PartOutline expected{.begin = part.begin,
                           .num_tokens = part.num_tokens,
                           .first_sequence_begin = part.begin};
      for (const SequenceRun& run : part.runs) {
        expected.has_begin = expected.has_begin || run.begins;
      }
      if (!part.runs.empty() && !part.runs[0].begins) {
        expected.first_sequence_begin = std::accumulate(
            real.begin(), real.begin() + part.runs[0].sequence, int64_t{0});
      }
      EXPECT_EQ(outlines[rank], expected) << round << " rank " << rank;
    }
  }
}

// What travels, rank by rank.
std::vector<RowMoves> MovesOf(const ShardPlan& plan) {
  std::vector<RowMoves> moves;
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    moves.push_back(MovesToParts(plan, rank));
  }
  return moves;
}

// Property: every real token arrives at its place, once.
TEST(MovesToPartsTest, EveryTokenArrives) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const int cp_size = static_cast<int>(random() % 6) + 1;
    std::vector<int64_t> real, padded;
    for (int i = static_cast<int>(random() % 5) + 1; i > 0; --i) {
      padded.push_back(static_cast<int64_t>(random() % 3 + 1) * 2 * cp_size);
      real.push_back(static_cast<int64_t>(random() % (padded.back() + 1)));
    }
    const PackedLengths lengths = OneRow(real, padded);
    const Layout layout =
        std::vector<Layout>{Layout::kHeadTailPerSequence, Layout::kStriped,
                            Layout::kBalanced}[random() % 3];
    const auto plan = PlanShards(lengths, {.layout = layout}, cp_size);
    ASSERT_THAT(plan, IsOk());
    // Number of each stream position among the real tokens; -1 for padding.
    std::vector<int64_t> token_of;
    int64_t next = 0;
    for (size_t i = 0; i < real.size(); ++i) {
      for (int64_t p = 0; p < padded[i]; ++p) {
        token_of.push_back(p < real[i] ? next++ : -1);
      }
    }
    const std::vector<RowMoves> moves = MovesOf(*plan);
    for (int to = 0; to < cp_size; ++to) {
      const TokenPart part = PartOf(lengths, cp_size, to);
      std::vector<int64_t> arrived(part.num_tokens, -1);
      size_t place = 0;
      for (int from = 0; from < cp_size; ++from) {
        ASSERT_EQ(moves[from].send_counts[to], moves[to].receive_counts[from]);
        int64_t at = 0;
        for (int peer = 0; peer < to; ++peer) {
          at += moves[from].send_counts[peer];
        }
        const std::vector<int32_t> index = LocalIndex(*plan, from);
        for (int64_t i = 0; i < moves[from].send_counts[to]; ++i) {
          const int64_t token = token_of[index[moves[from].send_rows[at + i]]];
          int64_t& slot = arrived[moves[to].receive_rows[place++]];
          ASSERT_EQ(slot, -1);
          slot = token;
        }
      }
      for (int64_t i = 0; i < part.num_tokens; ++i) {
        ASSERT_EQ(arrived[i], part.begin + i);
      }
    }
  }
}

// Head and tail chunk of a rank go to one rank each.
TEST(MovesToPartsTest, HeadTailNeedsTwoPeersEachWay) {
  for (const int cp_size : {2, 3, 4, 8}) {
    const auto plan =
        PlanShards(OneRow({4 * cp_size}),
                   {.layout = Layout::kHeadTailPerSequence}, cp_size);
    ASSERT_THAT(plan, IsOk());
    for (const RowMoves& moves : MovesOf(*plan)) {
      const auto peers = [](const std::vector<int64_t>& counts) {
        return std::count_if(counts.begin(), counts.end(),
                             [](int64_t count) { return count > 0; });
      };
      EXPECT_LE(peers(moves.send_counts), 2);
      EXPECT_LE(peers(moves.receive_counts), 2);
    }
  }
}

}  // namespace
}  // namespace cpfeed
