#include "core/plan/layouts/stream_dealer.h"

#include <algorithm>

namespace cpfeed {
namespace {

void Append(int64_t sequence, int64_t begin, int64_t length,
            std::vector<Segment>& segments) {
  if (!segments.empty()) {
    Segment& last = segments.back();
    if (last.sequence == sequence && last.begin + last.length == begin) {
      last.length += static_cast<int32_t>(length);
      return;
    }
  }
  segments.push_back({.sequence = static_cast<int32_t>(sequence),
                      .begin = static_cast<int32_t>(begin),
                      .length = static_cast<int32_t>(length)});
}

}  // namespace

void StreamDealer::Give(int rank, int64_t length) {
  std::vector<Segment>& segments = ranks_[rank].segments;
  while (length > 0) {
    const int64_t left = lengths_.padded[sequence_] - begin_;
    if (left == 0) {
      ++sequence_;
      begin_ = 0;
      continue;
    }
    const int64_t taken = std::min(left, length);
    Append(sequence_, begin_, taken, segments);
    begin_ += taken;
    length -= taken;
  }
}

}  // namespace cpfeed
