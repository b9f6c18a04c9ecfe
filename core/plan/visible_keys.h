// Which keys of its sequence a query sees, as far as plans care.

#ifndef CPFEED_CORE_PLAN_VISIBLE_KEYS_H_
#define CPFEED_CORE_PLAN_VISIBLE_KEYS_H_

#include <algorithm>
#include <cstdint>

namespace cpfeed {

// The query at position p of a sequence sees the keys at positions
// p - left .. p + right of the same sequence; -1 is unbounded, smaller is not
// allowed. The default is the causal mask.
struct VisibleKeys {
  int64_t left = -1;
  int64_t right = 0;

  static VisibleKeys Causal() { return {.left = -1, .right = 0}; }
  static VisibleKeys Full() { return {.left = -1, .right = -1}; }
  // A causal sliding window: `left` keys before its own.
  static VisibleKeys Window(int64_t left) { return {.left = left, .right = 0}; }

  bool is_causal() const { return left < 0 && right == 0; }
  bool is_full() const { return left < 0 && right < 0; }

  // The first key that any query at `position` or behind it sees.
  int64_t First(int64_t position) const {
    return left < 0 ? 0 : std::max<int64_t>(position - left, 0);
  }
  // One behind the last key that the query at `position` sees, in a sequence
  // of `real` tokens.
  int64_t End(int64_t position, int64_t real) const {
    return right < 0 ? real : std::min(position + right + 1, real);
  }

  friend bool operator==(const VisibleKeys&, const VisibleKeys&) = default;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_VISIBLE_KEYS_H_
