#include "core/shard/source_runs.h"

#include <algorithm>

namespace cpfeed {
namespace {

void AddCopy(CopyRun run, std::vector<CopyRun>& copies) {
  if (run.length == 0) return;
  if (!copies.empty()) {
    CopyRun& last = copies.back();
    if (last.row + last.length == run.row &&
        last.source + last.length == run.source) {
      last.length += run.length;
      return;
    }
  }
  copies.push_back(run);
}

}  // namespace

std::vector<int64_t> SourceBegins(const ThdChunk& chunk) {
  std::vector<int64_t> begins(chunk.source.size());
  int64_t next = chunk.source_begin;
  for (size_t i = 0; i < chunk.source.size(); ++i) {
    begins[i] = next;
    next += chunk.source[i];
  }
  return begins;
}

SourceRuns ComputeSourceRuns(const ThdChunk& chunk, const RankPlan& plan) {
  SourceRuns runs;
  // A segment gives at most one copy and one pad.
  runs.copies.reserve(plan.segments.size());
  int64_t row = 0;
  int32_t sequence = 0;
  int64_t begin_of_sequence = chunk.source_begin;
  for (const Segment& segment : plan.segments) {
    for (; sequence < segment.sequence; ++sequence) {
      begin_of_sequence += chunk.source[sequence];
    }
    const int64_t copied = std::clamp<int64_t>(
        chunk.source[sequence] - segment.begin, 0, segment.length);
    AddCopy({.row = static_cast<int32_t>(row),
             .source = static_cast<int32_t>(begin_of_sequence + segment.begin),
             .length = static_cast<int32_t>(copied)},
            runs.copies);
    if (copied < segment.length) {
      runs.pads.push_back({.row = row + copied,
                           .length = segment.length - copied,
                           .begin = segment.begin + copied,
                           .sequence = sequence});
    }
    row += segment.length;
  }
  if (row < plan.num_tokens) {
    runs.pads.push_back({.row = row, .length = plan.num_tokens - row});
  }
  return runs;
}

}  // namespace cpfeed
