#include "tests/core/comm/communicator_conformance.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "core/base/error.h"
#include "core/comm/agreement.h"
#include "core/comm/collectives.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int kGroupSizes[] = {1, 2, 3, 5};

template <class T>
absl::Span<const std::byte> BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

template <class T>
absl::Span<std::byte> RoomIn(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

}  // namespace

void CommunicatorConformanceTest::RunRanks(
    int size, const std::function<void(Communicator&)>& body,
    absl::Duration timeout) {
  auto ends = GetParam().make(size, {.group_name = "g", .timeout = timeout});
  ASSERT_EQ(ends.size(), size);
  std::vector<std::thread> ranks;
  for (auto& end : ends) {
    ranks.emplace_back([&body, end = std::move(end)] { body(*end); });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_P(CommunicatorConformanceTest, RingShiftsVisitEveryRank) {
  for (const int size : kGroupSizes) {
    RunRanks(size, [size](Communicator& group) {
      std::vector<int64_t> block = {group.rank(), 10 * group.rank()};
      std::vector<int64_t> next(2);
      for (int step = 1; step < size; ++step) {
        auto shift = StartRingShift(group, {BytesOf(block)}, {RoomIn(next)});
        ASSERT_THAT(shift, IsOk());
        ASSERT_THAT((*shift)->Wait(), IsOk());
        std::swap(block, next);
        const int64_t source = (group.rank() + size - step) % size;
        EXPECT_THAT(block, ::testing::ElementsAre(source, 10 * source));
      }
      EXPECT_EQ(group.bytes().received, 16 * (size - 1));
      EXPECT_EQ(group.bytes().sent, 16 * (size - 1));
    });
  }
}

TEST_P(CommunicatorConformanceTest, PartsBetweenTwoRanksKeepTheirOrder) {
  RunRanks(2, [](Communicator& group) {
    const int peer = 1 - group.rank();
    const std::vector<int64_t> first = {1, 2, 3};
    const std::vector<int64_t> second = {4};
    std::vector<int64_t> first_in(3), second_in(1);
    ASSERT_THAT(
        group.Exchange({{peer, BytesOf(first)}, {peer, BytesOf(second)}},
                       {{peer, RoomIn(first_in)}, {peer, RoomIn(second_in)}}),
        IsOk());
    EXPECT_EQ(first_in, first);
    EXPECT_EQ(second_in, second);
  });
}

TEST_P(CommunicatorConformanceTest, ExchangesOverlap) {
  RunRanks(3, [](Communicator& group) {
    const std::vector<int64_t> block(1000, group.rank());
    std::vector<int64_t> a(1000), b(1000);
    auto first = StartRingShift(group, {BytesOf(block)}, {RoomIn(a)});
    auto second = StartRingShift(group, {BytesOf(block)}, {RoomIn(b)});
    ASSERT_THAT(first, IsOk());
    ASSERT_THAT(second, IsOk());
    ASSERT_THAT((*second)->Wait(), IsOk());
    ASSERT_THAT((*first)->Wait(), IsOk());
    EXPECT_THAT(a, Each((group.rank() + 2) % 3));
    EXPECT_THAT(b, Each((group.rank() + 2) % 3));
  });
}

TEST_P(CommunicatorConformanceTest, LargeBlocksCrossBothWays) {
  RunRanks(2, [](Communicator& group) {
    const std::vector<int64_t> block(1 << 20, 7 + group.rank());
    std::vector<int64_t> received(1 << 20);
    ASSERT_THAT(group.Exchange({{1 - group.rank(), BytesOf(block)}},
                               {{1 - group.rank(), RoomIn(received)}}),
                IsOk());
    EXPECT_THAT(received, Each(8 - group.rank()));
  });
}

// Rank r holds r + 1 values: pieces of different sizes, rank 0's in front.
TEST_P(CommunicatorConformanceTest, AllGatherPutsPiecesInRankOrder) {
  for (const int size : kGroupSizes) {
    RunRanks(size, [size](Communicator& group) {
      std::vector<int64_t> sizes, expected;
      for (int rank = 0; rank < size; ++rank) {
        sizes.push_back((rank + 1) * sizeof(int64_t));
        expected.insert(expected.end(), rank + 1, rank);
      }
      const std::vector<int64_t> own(group.rank() + 1, group.rank());
      std::vector<int64_t> all(expected.size(), -1);
      ASSERT_THAT(AllGather(group, BytesOf(own), sizes, RoomIn(all)), IsOk());
      EXPECT_EQ(all, expected);
    });
  }
}

// Rank r sends p values 100 * r + p to rank p: nothing at all to rank 0.
TEST_P(CommunicatorConformanceTest, AllToAllTransposesPiecesAlsoEmptyOnes) {
  for (const int size : kGroupSizes) {
    RunRanks(size, [size](Communicator& group) {
      const int me = group.rank();
      std::vector<int64_t> sent, send_sizes, expected;
      for (int peer = 0; peer < size; ++peer) {
        sent.insert(sent.end(), peer, 100 * me + peer);
        send_sizes.push_back(peer * sizeof(int64_t));
        expected.insert(expected.end(), me, 100 * peer + me);
      }
      const std::vector<int64_t> receive_sizes(size, me * sizeof(int64_t));
      std::vector<int64_t> received(expected.size());
      ASSERT_THAT(AllToAll(group, BytesOf(sent), send_sizes, RoomIn(received),
                           receive_sizes),
                  IsOk());
      EXPECT_EQ(received, expected);
    });
  }
}

TEST_P(CommunicatorConformanceTest, ReduceScatterAddsInRankOrder) {
  for (const int size : kGroupSizes) {
    RunRanks(size, [size](Communicator& group) {
      std::vector<int64_t> counts;
      std::vector<float> contribution;
      for (int piece = 0; piece < size; ++piece) {
        counts.push_back(piece);
        // 1e8 + 1 - 1e8 depends on the order of the sum.
        const float value = group.rank() == 0   ? 1e8f
                            : group.rank() == 1 ? -1e8f
                                                : 1.5f;
        contribution.insert(contribution.end(), piece, value);
      }
      std::vector<float> sum(group.rank());
      ASSERT_THAT(ReduceScatter(group, DType::kFloat32, ReduceOp::kSum,
                                BytesOf(contribution), counts, RoomIn(sum)),
                  IsOk());
      if (size == 1) return;
      EXPECT_THAT(sum, Each(1.5f * (size - 2)));
    });
  }
}

TEST_P(CommunicatorConformanceTest, AllReduceLeavesTheResultEverywhere) {
  for (const int size : kGroupSizes) {
    RunRanks(size, [size](Communicator& group) {
      std::vector<double> sum(7, group.rank() + 1);
      ASSERT_THAT(
          AllReduce(group, DType::kFloat64, ReduceOp::kSum, RoomIn(sum)),
          IsOk());
      EXPECT_THAT(sum, Each(size * (size + 1) / 2));
      std::vector<int64_t> most = {group.rank(), -group.rank()};
      ASSERT_THAT(AllReduce(group, DType::kInt64, ReduceOp::kMax, RoomIn(most)),
                  IsOk());
      EXPECT_THAT(most, ::testing::ElementsAre(size - 1, 0));
      std::vector<int32_t> least = {group.rank()};
      ASSERT_THAT(
          AllReduce(group, DType::kInt32, ReduceOp::kMin, RoomIn(least)),
          IsOk());
      EXPECT_EQ(least[0], 0);
    });
  }
}

TEST_P(CommunicatorConformanceTest, EqualDigestsAgree) {
  RunRanks(3, [](Communicator& group) {
    EXPECT_THAT(CheckDigestAgreement(group, 0xfeed), IsOk());
    EXPECT_THAT(Barrier(group), IsOk());
  });
}

TEST_P(CommunicatorConformanceTest, DifferentDigestsAreNamedOnEveryRank) {
  RunRanks(3, [](Communicator& group) {
    const absl::Status status =
        CheckDigestAgreement(group, group.rank() == 1 ? 0xbad : 0xfeed);
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("0x000000000000feed on ranks 0, 2"),
                               HasSubstr("0x0000000000000bad on rank 1"))));
    EXPECT_THAT(status, HasReason(kPlanMismatch));
    // The group itself is sound.
    EXPECT_THAT(Barrier(group), IsOk());
  });
}

TEST_P(CommunicatorConformanceTest, DifferentStepsAreNamedOnEveryRank) {
  RunRanks(3, [](Communicator& group) {
    EXPECT_THAT(CheckStepAgreement(group, 7), IsOk());
    const absl::Status status =
        CheckStepAgreement(group, group.rank() == 2 ? -1 : 8);
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("step is the end on rank 2 and 8 on ranks "
                                   "0, 1; must be equal")));
    EXPECT_THAT(status, HasReason(kOutOfOrder));
  });
}

TEST_P(CommunicatorConformanceTest, PeerThatDoesNotTakePartIsNamed) {
  // Rank 1 stays away until the others have given up on it.
  absl::Notification given_up[2];
  RunRanks(
      3,
      [&](Communicator& group) {
        if (group.rank() == 1) {
          given_up[0].WaitForNotification();
          given_up[1].WaitForNotification();
          return;
        }
        const absl::Status status = Barrier(group);
        EXPECT_FALSE(status.ok());
        if (group.rank() == 0) {
          EXPECT_THAT(
              status,
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("group \"g\""), HasSubstr("rank 1 of 3"),
                             HasSubstr("took longer than 300ms"))));
          EXPECT_THAT(status, HasReason(kPeerLate));
        }
        EXPECT_THAT(Barrier(group),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("failed earlier")));
        given_up[group.rank() / 2].Notify();
      },
      absl::Milliseconds(300));
}

TEST_P(CommunicatorConformanceTest, PeerThatLeavesIsNamed) {
  RunRanks(2, [](Communicator& group) {
    ASSERT_THAT(Barrier(group), IsOk());
    if (group.rank() == 1) return;
    const absl::Status status = Barrier(group);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                 HasSubstr("rank 1 of 2 failed")));
    EXPECT_THAT(status, HasReason(kPeerLost));
  });
}

TEST_P(CommunicatorConformanceTest, AbortFromAnotherThreadEndsAWait) {
  // Both wait for what the other never sends; the timeout is far away.
  RunRanks(2, [](Communicator& group) {
    std::vector<int64_t> in(1);
    auto receive = group.StartExchange({}, {{1 - group.rank(), RoomIn(in)}});
    ASSERT_THAT(receive, IsOk());
    if (group.rank() == 0) {
      EXPECT_THAT((*receive)->Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                               HasSubstr("rank 1")));
      return;
    }
    std::thread other([&] { group.Abort("operator stopped it"); });
    EXPECT_THAT((*receive)->Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                             HasSubstr("operator stopped it")));
    other.join();
    EXPECT_THAT(Barrier(group), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("operator stopped it")));
  });
}

TEST_P(CommunicatorConformanceTest, DroppedExchangeEndsTheGroup) {
  RunRanks(2, [](Communicator& group) {
    if (group.rank() == 0) return;
    {
      std::vector<int64_t> in(1);
      ASSERT_THAT(group.StartExchange({}, {{0, RoomIn(in)}}), IsOk());
    }
    EXPECT_THAT(Barrier(group), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("dropped")));
  });
}

TEST_P(CommunicatorConformanceTest, WrongPeersAndSizesAreRefused) {
  RunRanks(2, [](Communicator& group) {
    const std::vector<int64_t> out(1);
    std::vector<int64_t> in(2);
    EXPECT_THAT(group.Exchange({{2, BytesOf(out)}}, {}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("peer is 2; must be in [0, 2)")));
    EXPECT_THAT(group.Exchange({{group.rank(), BytesOf(out)}},
                               {{group.rank(), RoomIn(in)}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("sends itself 8 bytes")));
    EXPECT_THAT(AllGather(group, BytesOf(out), {8, 16}, RoomIn(in)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("receive has 16 bytes; its pieces sum to "
                                   "24")));
    // None of them has reached the peer.
    EXPECT_THAT(Barrier(group), IsOk());
  });
}

}  // namespace cpfeed::testing
