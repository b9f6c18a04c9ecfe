#include "core/batch/packer_strategy.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

using Rows = std::vector<std::vector<int64_t>>;

// The room of each row as a binary tree of maxima: the first row with enough
// room is found from the root. Rows that are not open yet have room for
// everything.
class RoomTree {
 public:
  RoomTree(int64_t num_rows, int64_t row_width) {
    while (leaves_ < num_rows) leaves_ *= 2;
    max_room_.assign(2 * leaves_, row_width);
  }

  int64_t TakeFirstWithRoom(int64_t slot) {
    int64_t node = 1;
    while (node < leaves_) {
      node *= 2;
      if (max_room_[node] < slot) ++node;
    }
    const int64_t row = node - leaves_;
    max_room_[node] -= slot;
    for (node /= 2; node >= 1; node /= 2) {
      max_room_[node] = std::max(max_room_[2 * node], max_room_[2 * node + 1]);
    }
    return row;
  }

 private:
  int64_t leaves_ = 1;
  std::vector<int64_t> max_room_;  // [2 * leaves_], root at 1
};

Rows FirstFit(absl::Span<const int64_t> slots, int64_t row_width) {
  Rows rows;
  RoomTree room(static_cast<int64_t>(slots.size()), row_width);
  for (size_t i = 0; i < slots.size(); ++i) {
    const int64_t row = room.TakeFirstWithRoom(slots[i]);
    if (row == static_cast<int64_t>(rows.size())) rows.emplace_back();
    rows[row].push_back(static_cast<int64_t>(i));
  }
  return rows;
}

Rows BestFitDecreasing(absl::Span<const int64_t> slots, int64_t row_width) {
  std::vector<int64_t> order(slots.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return slots[a] > slots[b]; });
  Rows rows;
  std::set<std::pair<int64_t, int64_t>> open;  // (room, row)
  for (const int64_t i : order) {
    auto fit = open.lower_bound({slots[i], 0});
    if (fit == open.end()) {
      fit = open.insert({row_width, static_cast<int64_t>(rows.size())}).first;
      rows.emplace_back();
    }
    const auto [room, row] = *fit;
    open.erase(fit);
    open.insert({room - slots[i], row});
    rows[row].push_back(i);
  }
  for (std::vector<int64_t>& row : rows) std::sort(row.begin(), row.end());
  return rows;
}

}  // namespace

absl::string_view PackStrategyName(PackStrategy strategy) {
  switch (strategy) {
    case PackStrategy::kFirstFit:
      return "first_fit";
    case PackStrategy::kBestFitDecreasing:
      return "best_fit_decreasing";
    case PackStrategy::kBalanced:
      return "balanced";
  }
  CF_CHECK(false);
}

absl::StatusOr<PackStrategy> ParsePackStrategy(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const PackStrategy strategy :
       {PackStrategy::kFirstFit, PackStrategy::kBestFitDecreasing,
        PackStrategy::kBalanced}) {
    if (lower == PackStrategyName(strategy)) return strategy;
  }
  return InvalidArgument(
      kBadOption,
      absl::StrCat("strategy is \"", name,
                   "\"; must be first_fit, best_fit_decreasing or balanced"));
}

std::vector<std::vector<int64_t>> AssignToRows(absl::Span<const int64_t> slots,
                                               int64_t row_width,
                                               PackStrategy strategy) {
  for (const int64_t slot : slots) CF_CHECK(0 <= slot && slot <= row_width);
  return strategy == PackStrategy::kFirstFit
             ? FirstFit(slots, row_width)
             : BestFitDecreasing(slots, row_width);
}

}  // namespace cpfeed
