// The layouts once more, asked the other way round: whose is this position?

#ifndef CPFEED_CORE_PLAN_OWNER_FORMULA_H_
#define CPFEED_CORE_PLAN_OWNER_FORMULA_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/plan/shard_plan.h"

namespace cpfeed {

// Who owns a position, and how far that stays so.
struct Ownership {
  int cp_rank = 0;
  int64_t end = 0;  // The owner has all positions up to here, at least.
};

// Answers from the closed formula of the layout alone, without the plan's
// ranks; a check on plans.
class OwnerFormula {
 public:
  // `plan` outlives the formula. Its lengths are checked.
  explicit OwnerFormula(const ShardPlan& plan);

  // Nothing where the layout has no closed formula (CHUNK_GREEDY, PTRR,
  // BALANCED). `position` counts from the slot's start and lies inside.
  std::optional<Ownership> OwnerOf(int64_t sequence, int64_t position) const;

 private:
  // Of the range [begin, end) of the stream in equal chunks, dealt forwards and
  // then backwards; the answer's end is a stream position.
  Ownership HeadTail(int64_t begin, int64_t end, int64_t stream_position) const;

  const ShardPlan& plan_;
  std::vector<int64_t> slot_begin_;  // [num_sequences + 1]
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_OWNER_FORMULA_H_
