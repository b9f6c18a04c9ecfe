#include "core/plan/transfer_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/plan/rank_plan.h"

namespace cpfeed {
namespace {

int64_t RealEnd(const ShardPlan& plan, const Segment& segment) {
  return std::min<int64_t>(segment.begin + int64_t{segment.length},
                           plan.lengths.real[segment.sequence]);
}

// Turns counts at [i + 1] into begins.
void CountsToBegins(std::vector<int64_t>& begins) {
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
}

// The part of `run` at positions [begin, end), of which there must be some.
KvRun Clip(const KvRun& run, int32_t begin, int32_t end) {
  const int32_t from = std::max(run.begin, begin);
  const int32_t to = std::min(run.begin + run.length, end);
  return {.sequence = run.sequence,
          .begin = from,
          .length = to - from,
          .owner_row = run.owner_row + (from - run.begin)};
}

// Runs by the rank at the other end.
class Peers {
 public:
  explicit Peers(size_t cp_size) : runs_(cp_size) {}

  void Add(int peer, const KvRun& run) { runs_[peer].push_back(run); }

  std::vector<KvTransfer> ToTransfers() {
    std::vector<KvTransfer> transfers;
    for (size_t peer = 0; peer < runs_.size(); ++peer) {
      if (runs_[peer].empty()) continue;
      KvTransfer transfer{.peer = static_cast<int>(peer),
                          .runs = std::move(runs_[peer])};
      for (const KvRun& run : transfer.runs) transfer.num_rows += run.length;
      transfers.push_back(std::move(transfer));
    }
    return transfers;
  }

 private:
  std::vector<std::vector<KvRun>> runs_;
};

}  // namespace

TransferTable::TransferTable(const ShardPlan& plan, const VisibleKeys& mask)
    : traffic_(plan.ranks.size()) {
  CountShared(plan);
  rank_runs_begin_ = {0};
  rank_needs_begin_ = {0};
  for (int rank = 0; rank < plan.cp_size; ++rank) {
    AddRank(plan, rank, mask);
    rank_runs_begin_.push_back(static_cast<int64_t>(rank_runs_.size()));
    rank_needs_begin_.push_back(static_cast<int64_t>(rank_needs_.size()));
  }
  GroupBySequence();
  const auto num_slots = static_cast<int32_t>(run_begin_.size()) - 1;
  for (int32_t slot = 0; slot < num_slots; ++slot) MeasureSequence(slot);
}

void TransferTable::CountShared(const ShardPlan& plan) {
  slot_of_.assign(plan.lengths.real.size(), 0);
  for (const RankPlan& rank : plan.ranks) {
    for (const Segment& segment : rank.segments) {
      slot_of_[segment.sequence] +=
          segment.begin < plan.lengths.real[segment.sequence];
    }
  }
  int32_t num_slots = 0;
  run_begin_ = {0};
  for (int32_t& slot : slot_of_) {
    if (slot > 1) run_begin_.push_back(run_begin_.back() + slot);
    slot = slot > 1 ? num_slots++ : -1;
  }
}

void TransferTable::AddRank(const ShardPlan& plan, int cp_rank,
                            const VisibleKeys& mask) {
  const auto first_need = static_cast<int64_t>(rank_needs_.size());
  int32_t row = 0;
  for (const Segment& segment : plan.ranks[cp_rank].segments) {
    const int64_t end = RealEnd(plan, segment);
    if (end > segment.begin && slot_of_[segment.sequence] >= 0) {
      rank_runs_.push_back({.sequence = segment.sequence,
                            .begin = segment.begin,
                            .length = static_cast<int32_t>(end - segment.begin),
                            .owner_row = row});
      const Need need{.cp_rank = cp_rank,
                      .sequence = segment.sequence,
                      .begin = static_cast<int32_t>(mask.First(segment.begin)),
                      .end = static_cast<int32_t>(mask.End(
                          end - 1, plan.lengths.real[segment.sequence]))};
      const bool joins =
          static_cast<int64_t>(rank_needs_.size()) > first_need &&
          rank_needs_.back().sequence == need.sequence &&
          rank_needs_.back().end >= need.begin;
      if (joins) {
        rank_needs_.back().end = need.end;
      } else {
        rank_needs_.push_back(need);
      }
    }
    row += segment.length;
  }
}

void TransferTable::GroupBySequence() {
  runs_.resize(rank_runs_.size());
  std::vector<int64_t> next(run_begin_.begin(), run_begin_.end() - 1);
  for (size_t rank = 0; rank < traffic_.size(); ++rank) {
    for (int64_t i = rank_runs_begin_[rank]; i < rank_runs_begin_[rank + 1];
         ++i) {
      runs_[next[slot_of_[rank_runs_[i].sequence]]++] = {
          .run = rank_runs_[i], .cp_rank = static_cast<int32_t>(rank)};
    }
  }
  need_begin_.assign(run_begin_.size(), 0);
  for (const Need& need : rank_needs_) {
    ++need_begin_[slot_of_[need.sequence] + 1];
  }
  CountsToBegins(need_begin_);
  needs_.resize(rank_needs_.size());
  next.assign(need_begin_.begin(), need_begin_.end() - 1);
  for (const Need& need : rank_needs_) {
    needs_[next[slot_of_[need.sequence]]++] = need;
  }
  for (size_t slot = 0; slot + 1 < run_begin_.size(); ++slot) {
    std::sort(runs_.begin() + run_begin_[slot],
              runs_.begin() + run_begin_[slot + 1],
              [](const OwnedRun& a, const OwnedRun& b) {
                return a.run.begin < b.run.begin;
              });
  }
}

// Sweeps over the sequence: between two ends of needs every row is seen by
// equally many ranks, its owner among them.
void TransferTable::MeasureSequence(int32_t slot) {
  std::vector<std::pair<int32_t, int32_t>> changes;  // Position, by how much.
  for (int64_t i = need_begin_[slot]; i < need_begin_[slot + 1]; ++i) {
    const Need& need = needs_[i];
    traffic_[need.cp_rank].received += need.end - need.begin;
    changes.emplace_back(need.begin, 1);
    changes.emplace_back(need.end, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t seen_by = 0;
  auto change = changes.begin();
  for (int64_t i = run_begin_[slot]; i < run_begin_[slot + 1]; ++i) {
    const KvRun& run = runs_[i].run;
    KvTraffic& owner = traffic_[runs_[i].cp_rank];
    owner.received -= run.length;
    const int32_t end = run.begin + run.length;
    for (int32_t position = run.begin; position < end;) {
      while (change != changes.end() && change->first <= position) {
        seen_by += change++->second;
      }
      const int32_t next =
          change == changes.end() ? end : std::min(end, change->first);
      const int64_t receivers = seen_by - 1;
      owner.sent += receivers * (next - position);
      if (receivers > 0) owner.sent_once += next - position;
      owner.fan_out = std::max(owner.fan_out, receivers);
      position = next;
    }
  }
}

std::vector<KvTransfer> TransferTable::ReceivedBy(int cp_rank) const {
  Peers peers(traffic_.size());
  for (int64_t i = rank_needs_begin_[cp_rank];
       i < rank_needs_begin_[cp_rank + 1]; ++i) {
    const Need& need = rank_needs_[i];
    const int32_t slot = slot_of_[need.sequence];
    const auto last = runs_.begin() + run_begin_[slot + 1];
    // The first run that reaches behind the need's begin.
    auto owned = std::partition_point(
        runs_.begin() + run_begin_[slot], last, [&](const OwnedRun& o) {
          return o.run.begin + o.run.length <= need.begin;
        });
    for (; owned != last && owned->run.begin < need.end; ++owned) {
      if (owned->cp_rank == cp_rank) continue;
      peers.Add(owned->cp_rank, Clip(owned->run, need.begin, need.end));
    }
  }
  return peers.ToTransfers();
}

std::vector<KvTransfer> TransferTable::SentBy(int cp_rank) const {
  Peers peers(traffic_.size());
  for (int64_t i = rank_runs_begin_[cp_rank]; i < rank_runs_begin_[cp_rank + 1];
       ++i) {
    const KvRun& run = rank_runs_[i];
    const int32_t slot = slot_of_[run.sequence];
    for (int64_t n = need_begin_[slot]; n < need_begin_[slot + 1]; ++n) {
      const Need& need = needs_[n];
      if (need.cp_rank == cp_rank || need.end <= run.begin ||
          need.begin >= run.begin + run.length) {
        continue;
      }
      peers.Add(need.cp_rank, Clip(run, need.begin, need.end));
    }
  }
  return peers.ToTransfers();
}

}  // namespace cpfeed
