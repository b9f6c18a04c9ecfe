#include "core/attention/tile_plan.h"

#include <algorithm>
#include <utility>

namespace cpfeed {
namespace {

// Groups of fewer rows are not worth kernel calls of their own where a sequence
// has several.
constexpr int64_t kShortGroup = 16;
// Rows of a band: enough for the kernel, few enough that the keys which only
// some rows see stay few.
constexpr int64_t kBandRows = 128;
// From this many keys on, those which all rows of a band see become a full
// tile, which needs no mask.
constexpr int64_t kWideFull = 128;

// Takes the runs of the first sequence off the front of `runs`.
absl::Span<const RowRun> TakeSequence(absl::Span<const RowRun>& runs) {
  size_t count = 1;
  while (count < runs.size() && runs[count].sequence == runs[0].sequence) {
    ++count;
  }
  const absl::Span<const RowRun> taken = runs.subspan(0, count);
  runs.remove_prefix(count);
  return taken;
}

// Counts keys by position; positions asked for do not decrease.
class KeyCounter {
 public:
  explicit KeyCounter(absl::Span<const RowRun> keys) : keys_(keys) {}

  // How many keys have a position below `position`.
  int32_t Below(int64_t position) {
    while (!keys_.empty() && keys_[0].position + keys_[0].length <= position) {
      passed_ += keys_[0].length;
      keys_.remove_prefix(1);
    }
    const int64_t inside =
        keys_.empty() ? 0 : std::max<int64_t>(position - keys_[0].position, 0);
    return static_cast<int32_t>(passed_ + inside);
  }

 private:
  absl::Span<const RowRun> keys_;
  int64_t passed_ = 0;
};

// The keys that each query row of a sequence sees.
std::vector<KeyRange> VisibleRanges(absl::Span<const RowRun> queries,
                                    absl::Span<const RowRun> keys,
                                    const AttentionMask& mask) {
  const int64_t last_key = keys.back().position + keys.back().length;
  const int64_t right = std::min(mask.right, last_key);  // No overflow.
  KeyCounter begins(keys);
  KeyCounter ends(keys);
  std::vector<KeyRange> ranges;
  for (const RowRun& run : queries) {
    for (int64_t p = run.position; p < run.position + run.length; ++p) {
      const int32_t begin = mask.left < 0 ? 0 : begins.Below(p - mask.left);
      const int32_t end = ends.Below(right < 0 ? last_key : p + right + 1);
      ranges.push_back({begin, std::max(begin, end)});
    }
  }
  return ranges;
}

// Makes the tiles of one sequence.
class SequenceTiler {
 public:
  SequenceTiler(int64_t q_row, int64_t k_row, std::vector<KeyRange> ranges,
                TilePlan& plan)
      : q_row_(q_row), k_row_(k_row), ranges_(std::move(ranges)), plan_(plan) {}

  void Run() {
    int64_t begin = 0;
    int64_t end = size();
    while (begin < end && IsEmpty(begin)) ++begin;
    while (end > begin && IsEmpty(end - 1)) --end;
    int64_t ragged = begin;  // First row of short groups not yet emitted.
    for (int64_t row = begin; row < end;) {
      if (IsEmpty(row)) {
        Bands(ragged, row);
        ragged = ++row;
        continue;
      }
      const int64_t group_end = GroupEnd(row, end);
      const bool whole = row == begin && group_end == end;
      if (!MovesBegin(row, group_end) &&
          (whole || group_end - row >= kShortGroup)) {
        Bands(ragged, row);
        Exact(row, group_end);
        ragged = group_end;
      }
      row = group_end;
    }
    Bands(ragged, end);
  }

 private:
  int64_t size() const { return static_cast<int64_t>(ranges_.size()); }
  bool IsEmpty(int64_t row) const {
    return ranges_[row].begin == ranges_[row].end;
  }
  bool MovesBegin(int64_t begin, int64_t end) const {
    return ranges_[begin].begin != ranges_[end - 1].begin;
  }

  // The end of the longest group from `row` on whose range stays or grows at
  // its end by one key a row, and whose beginning does the same.
  int64_t GroupEnd(int64_t row, int64_t limit) const {
    int64_t end = row + 1;
    if (end == limit) return end;
    const int32_t begin_step = ranges_[end].begin - ranges_[row].begin;
    const int32_t end_step = ranges_[end].end - ranges_[row].end;
    if (begin_step > 1 || end_step > 1) return end;
    while (end < limit && !IsEmpty(end) &&
           ranges_[end].begin - ranges_[end - 1].begin == begin_step &&
           ranges_[end].end - ranges_[end - 1].end == end_step) {
      ++end;
    }
    return end;
  }

  // A group whose ranges have one beginning: the keys that all rows see, then
  // the triangle of those that come one a row.
  void Exact(int64_t begin, int64_t end) {
    const KeyRange first = ranges_[begin];
    const bool grows = ranges_[end - 1].end != first.end;
    const int64_t common_end = first.end - (grows ? 1 : 0);
    if (common_end > first.begin) {
      Add(Tile::Kind::kFull, begin, end, first.begin, common_end);
    }
    if (grows) {
      Add(Tile::Kind::kCausal, begin, end, common_end,
          common_end + (end - begin));
    }
  }

  void Bands(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += kBandRows) {
      Band(row, std::min(row + kBandRows, end));
    }
  }

  // Ends of ranges do not decrease, so the first and the last row have the
  // extreme ones.
  void Band(int64_t begin, int64_t end) {
    const int64_t left = ranges_[begin].begin;
    const int64_t right = ranges_[end - 1].end;
    const int64_t common_begin = ranges_[end - 1].begin;
    const int64_t common_end = ranges_[begin].end;
    if (common_end - common_begin < kWideFull) {
      AddBand(begin, end, left, right);
      return;
    }
    AddBand(begin, end, left, common_begin);
    Add(Tile::Kind::kFull, begin, end, common_begin, common_end);
    AddBand(begin, end, common_end, right);
  }

  void AddBand(int64_t begin, int64_t end, int64_t left, int64_t right) {
    if (left >= right) return;
    Add(Tile::Kind::kBand, begin, end, left, right);
    for (int64_t row = begin; row < end; ++row) {
      const auto clamp = [&](int64_t key) {
        return static_cast<int32_t>(std::clamp(key, left, right) - left);
      };
      plan_.bounds.push_back(
          {clamp(ranges_[row].begin), clamp(ranges_[row].end)});
    }
  }

  void Add(Tile::Kind kind, int64_t begin, int64_t end, int64_t left,
           int64_t right) {
    plan_.tiles.push_back(
        {.kind = kind,
         .q_row = q_row_ + begin,
         .q_rows = end - begin,
         .k_row = k_row_ + left,
         .k_rows = right - left,
         .first_bound = kind == Tile::Kind::kBand
                            ? static_cast<int64_t>(plan_.bounds.size())
                            : 0});
  }

  const int64_t q_row_;
  const int64_t k_row_;
  const std::vector<KeyRange> ranges_;
  TilePlan& plan_;
};

}  // namespace

TilePlan PlanTiles(absl::Span<const RowRun> queries,
                   absl::Span<const RowRun> keys, const AttentionMask& mask) {
  TilePlan plan;
  while (!queries.empty() && !keys.empty()) {
    if (queries[0].sequence < keys[0].sequence) {
      TakeSequence(queries);
    } else if (keys[0].sequence < queries[0].sequence) {
      TakeSequence(keys);
    } else {
      const auto q = TakeSequence(queries);
      const auto k = TakeSequence(keys);
      SequenceTiler(q[0].row, k[0].row, VisibleRanges(q, k, mask), plan).Run();
    }
  }
  return plan;
}

}  // namespace cpfeed
