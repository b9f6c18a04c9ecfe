// Who sends which key-value rows to whom, so that each rank receives exactly
// the rows that its queries see and does not hold.
//
// Made from the plan alone, so every rank makes the same one.

#ifndef CPFEED_CORE_PLAN_TRANSFER_TABLE_H_
#define CPFEED_CORE_PLAN_TRANSFER_TABLE_H_

#include <cstdint>
#include <vector>

#include "core/plan/shard_plan.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {

// Real tokens at the positions [begin, begin + length) of a sequence. Its owner
// holds them in the rows [owner_row, owner_row + length) of its shard.
struct KvRun {
  int32_t sequence = 0;
  int32_t begin = 0;
  int32_t length = 0;  // At least 1.
  int32_t owner_row = 0;

  friend bool operator==(const KvRun&, const KvRun&) = default;
};

// What goes one way between two ranks, in stream order.
struct KvTransfer {
  int peer = 0;  // The other rank.
  std::vector<KvRun> runs;
  int64_t num_rows = 0;  // Sum of the runs' lengths.
};

// One rank's traffic in rows, for one layer's keys and values.
struct KvTraffic {
  int64_t received = 0;
  int64_t sent = 0;       // A row counts once for each receiver.
  int64_t sent_once = 0;  // A row counts once: what a multicast would send.
  int64_t fan_out = 0;    // The most receivers that a row of the rank has.
};

// Example: one sequence of 8 on two ranks, HEAD_TAIL_PER_SEQUENCE, causal.
//   rank 0 holds 0 1 6 7 in rows 0..3, rank 1 holds 2 3 4 5 in rows 0..3.
//   ReceivedBy(0): from 1 {sequence 0, begin 2, length 4, owner_row 0}
//   ReceivedBy(1): from 0 {sequence 0, begin 0, length 2, owner_row 0}
//   SentBy(0) is what 1 receives from 0: the same run, with peer 1.
//
// Padding is neither sent nor received. All methods are const and thread-safe.
class TransferTable {
 public:
  // `plan` has passed VerifyPlan; it is not kept. Time and memory are
  // O(num_sequences + S log S) for S segments of all ranks, however many rows
  // travel.
  explicit TransferTable(const ShardPlan& plan,
                         const VisibleKeys& mask = VisibleKeys::Causal());

  // What `cp_rank` receives: one transfer for each rank that sends it
  // something, by ascending peer. Time is linear in the runs of the sequences
  // that it shares with others.
  std::vector<KvTransfer> ReceivedBy(int cp_rank) const;

  // What `cp_rank` sends, by ascending peer. SentBy(a) has for peer b the same
  // runs, in the same order, as ReceivedBy(b) has for peer a.
  std::vector<KvTransfer> SentBy(int cp_rank) const;

  // [cp_size]. Under the causal mask a rank that holds n rows of a sequence,
  // the last at position e - 1, receives e - n of it.
  const std::vector<KvTraffic>& traffic() const { return traffic_; }

 private:
  struct OwnedRun {
    KvRun run;
    int32_t cp_rank = 0;
  };
  // The rank's queries see [begin, end) of a sequence. Those of one rank and
  // sequence do not touch.
  struct Need {
    int32_t cp_rank = 0;
    int32_t sequence = 0;
    int32_t begin = 0;
    int32_t end = 0;
  };

  void CountShared(const ShardPlan& plan);
  void AddRank(const ShardPlan& plan, int cp_rank, const VisibleKeys& mask);
  void GroupBySequence();
  void MeasureSequence(int32_t slot);

  // Only sequences of which there are several runs appear below: others are
  // whole on one rank. Each of them has a slot, in stream order.
  std::vector<int32_t> slot_of_;     // [num_sequences], -1 for the others.
  std::vector<int64_t> run_begin_;   // [num_slots + 1], into runs_.
  std::vector<OwnedRun> runs_;       // By slot, then by begin.
  std::vector<int64_t> need_begin_;  // [num_slots + 1], into needs_.
  std::vector<Need> needs_;          // By slot, then by rank and begin.
  std::vector<int64_t> rank_needs_begin_;  // [cp_size + 1], into rank_needs_.
  std::vector<Need> rank_needs_;           // By rank, then stream order.
  std::vector<int64_t> rank_runs_begin_;   // [cp_size + 1], into rank_runs_.
  std::vector<KvRun> rank_runs_;           // By rank, then stream order.
  std::vector<KvTraffic> traffic_;         // [cp_size]
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_TRANSFER_TABLE_H_
