#include "core/shard/source_order.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace cpfeed {
namespace {

constexpr int32_t kNone = std::numeric_limits<int32_t>::max();

// A processor reads ahead in a few streams by itself, not in one for each of 64
// ranks.
constexpr int kPrefetchRuns = 16;

// Each rank's first copy that is not taken yet.
class Heads {
 public:
  explicit Heads(absl::Span<const SourceRuns> ranks)
      : ranks_(ranks), taken_(ranks.size(), 0), sources_(ranks.size(), kNone) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) Look(rank);
  }

  // Of the copy that comes next in the input.
  int NextRank() {
    // Layouts deal up the ranks or round, turn at the last, or at the one
    // before.
    const int next = Neighbour(step_);
    if (sources_[next] == expected_) return next;
    step_ = -step_;
    if (sources_[last_] == expected_) return last_;
    const int back = Neighbour(step_);
    if (sources_[back] == expected_) return back;
    const auto first = std::min_element(sources_.begin(), sources_.end());
    return static_cast<int>(first - sources_.begin());
  }

  RankCopy Take(int rank) {
    const CopyRun& run = ranks_[rank].copies[taken_[rank]++];
    __builtin_prefetch(&run + kPrefetchRuns);
    Look(rank);
    last_ = rank;
    expected_ = run.source + run.length;
    return {.source = run.source,
            .row = run.row,
            .length = run.length,
            .rank = rank};
  }

 private:
  void Look(size_t rank) {
    const auto& copies = ranks_[rank].copies;
    sources_[rank] =
        taken_[rank] < copies.size() ? copies[taken_[rank]].source : kNone;
  }

  int Neighbour(int step) const {
    const int rank = last_ + step;
    const int size = static_cast<int>(sources_.size());
    return rank < 0 ? size - 1 : rank == size ? 0 : rank;
  }

  absl::Span<const SourceRuns> ranks_;
  std::vector<size_t> taken_;     // [cp_size]
  std::vector<int32_t> sources_;  // [cp_size], where the next copy begins.
  int last_ = 0;
  int step_ = 1;
  int32_t expected_ = 0;  // The end of the last copy.
};

}  // namespace

std::vector<RankCopy> MergeBySource(absl::Span<const SourceRuns> ranks) {
  size_t count = 0;
  for (const SourceRuns& runs : ranks) count += runs.copies.size();
  std::vector<RankCopy> merged;
  merged.reserve(count);
  Heads heads(ranks);
  while (merged.size() < count) merged.push_back(heads.Take(heads.NextRank()));
  return merged;
}

}  // namespace cpfeed
