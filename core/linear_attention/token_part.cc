#include "core/linear_attention/token_part.h"

#include <algorithm>
#include <numeric>

namespace cpfeed {
namespace {

int64_t Cut(int64_t total, int cp_size, int rank) {
  return total * rank / cp_size;
}

// Real tokens before each sequence, and all of them: [num_sequences + 1].
std::vector<int64_t> TokensBefore(const PackedLengths& lengths) {
  std::vector<int64_t> before = {0};
  before.reserve(lengths.real.size() + 1);
  for (const int64_t real : lengths.real) {
    before.push_back(before.back() + real);
  }
  return before;
}

// A run of a shard: rows [row, row + length) hold tokens [token, token +
// length).
struct ShardRun {
  int64_t row = 0;
  int64_t token = 0;
  int64_t length = 0;
};

// Calls visit(ShardRun) for each run of real tokens, by ascending token.
template <class Visit>
void VisitRuns(const ShardPlan& plan, int rank,
               const std::vector<int64_t>& before, Visit visit) {
  int64_t row = 0;
  for (const Segment& segment : plan.ranks[rank].segments) {
    const int64_t real = plan.lengths.real[segment.sequence] - segment.begin;
    const int64_t length = std::min<int64_t>(segment.length, real);
    if (length > 0) {
      visit(ShardRun{row, before[segment.sequence] + segment.begin, length});
    }
    row += segment.length;
  }
}

void AppendRange(int64_t begin, int64_t length, std::vector<int64_t>& rows) {
  rows.resize(rows.size() + length);
  std::iota(rows.end() - length, rows.end(), begin);
}

}  // namespace

TokenPart PartOf(const PackedLengths& lengths, int cp_size, int cp_rank) {
  const std::vector<int64_t> before = TokensBefore(lengths);
  const int64_t begin = Cut(before.back(), cp_size, cp_rank);
  const int64_t end = Cut(before.back(), cp_size, cp_rank + 1);
  TokenPart part{.begin = begin, .num_tokens = end - begin};
  // The last sequence that begins at or before `begin`.
  const auto first = std::upper_bound(before.begin(), before.end(), begin);
  for (auto sequence = first - before.begin() - 1;
       sequence + 1 < static_cast<int64_t>(before.size()) &&
       before[sequence] < end;
       ++sequence) {
    const int64_t from = std::max(before[sequence], begin);
    const int64_t to = std::min(before[sequence + 1], end);
    if (from >= to) continue;
    part.runs.push_back({.sequence = static_cast<int32_t>(sequence),
                         .row = from - begin,
                         .length = to - from,
                         .begins = from == before[sequence],
                         .ends = to == before[sequence + 1]});
  }
  return part;
}

std::vector<PartOutline> OutlineParts(const PackedLengths& lengths,
                                      int cp_size) {
  const int64_t total =
      std::accumulate(lengths.real.begin(), lengths.real.end(), int64_t{0});
  std::vector<PartOutline> parts(cp_size);
  for (int rank = 0; rank < cp_size; ++rank) {
    PartOutline& part = parts[rank];
    part.begin = Cut(total, cp_size, rank);
    part.num_tokens = Cut(total, cp_size, rank + 1) - part.begin;
    part.first_sequence_begin = part.begin;
  }
  int64_t begin = 0;
  int rank = 0;
  for (const int64_t real : lengths.real) {
    if (real == 0) continue;
    const int64_t end = begin + real;
    while (parts[rank].end() <= begin) ++rank;
    parts[rank].has_begin = true;
    for (int next = rank + 1; next < cp_size && parts[next].begin < end;
         ++next) {
      if (parts[next].num_tokens > 0) parts[next].first_sequence_begin = begin;
    }
    begin = end;
  }
  return parts;
}

RowMoves MovesToParts(const ShardPlan& plan, int cp_rank) {
  const int cp_size = plan.cp_size;
  const std::vector<int64_t> before = TokensBefore(plan.lengths);
  const int64_t total = before.back();
  RowMoves moves{.send_counts = std::vector<int64_t>(cp_size, 0),
                 .receive_counts = std::vector<int64_t>(cp_size, 0)};
  // Runs ascend in tokens, and so do the parts that they go to.
  int peer = 0;
  VisitRuns(plan, cp_rank, before, [&](ShardRun run) {
    while (run.length > 0) {
      while (Cut(total, cp_size, peer + 1) <= run.token) ++peer;
      const int64_t length =
          std::min(run.length, Cut(total, cp_size, peer + 1) - run.token);
      AppendRange(run.row, length, moves.send_rows);
      moves.send_counts[peer] += length;
      run = {run.row + length, run.token + length, run.length - length};
    }
  });
  const int64_t begin = Cut(total, cp_size, cp_rank);
  const int64_t end = Cut(total, cp_size, cp_rank + 1);
  for (int from = 0; from < cp_size; ++from) {
    VisitRuns(plan, from, before, [&](const ShardRun& run) {
      const int64_t first = std::max(run.token, begin);
      const int64_t last = std::min(run.token + run.length, end);
      if (first >= last) return;
      AppendRange(first - begin, last - first, moves.receive_rows);
      moves.receive_counts[from] += last - first;
    });
  }
  return moves;
}

}  // namespace cpfeed
