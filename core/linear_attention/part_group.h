// Where one rank's part lies, and the group it exchanges with.

#ifndef CPFEED_CORE_LINEAR_ATTENTION_PART_GROUP_H_
#define CPFEED_CORE_LINEAR_ATTENTION_PART_GROUP_H_

#include <memory>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"
#include "core/linear_attention/token_part.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// Shared by the layers of a step, and kept alive by their backward passes. All
// ranks of the group run the same layers, and the backward passes of them, in
// the same order: their exchanges meet.
struct PartGroup {
  std::shared_ptr<const ShardPlan> plan;
  std::shared_ptr<Communicator> communicator;
  std::vector<PartOutline> outlines;  // Of all ranks' parts.
  TokenPart part;
  RowMoves moves;
};

inline std::shared_ptr<const PartGroup> MakePartGroup(
    std::shared_ptr<const ShardPlan> plan,
    std::shared_ptr<Communicator> communicator) {
  const int rank = communicator->rank();
  PartGroup group{.plan = std::move(plan),
                  .communicator = std::move(communicator)};
  group.outlines = OutlineParts(group.plan->lengths, group.plan->cp_size);
  group.part = PartOf(group.plan->lengths, group.plan->cp_size, rank);
  group.moves = MovesToParts(*group.plan, rank);
  return std::make_shared<const PartGroup>(std::move(group));
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_LINEAR_ATTENTION_PART_GROUP_H_
