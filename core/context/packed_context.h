// The scope of a step whose tokens are a packed stream, cut by a plan: what
// ContextParallelContext is for rows.

#ifndef CPFEED_CORE_CONTEXT_PACKED_CONTEXT_H_
#define CPFEED_CORE_CONTEXT_PACKED_CONTEXT_H_

#include <memory>

#include "core/attention/attention_function.h"
#include "core/context/scope.h"
#include "core/linear_attention/part_group.h"

namespace cpfeed {

// A factory of a scope in which this thread's layers work on this rank's rows
// of the stream that `group.plan` cuts, as they came: nothing is sharded here.
// ScaledDotProductAttention of q [1, H, rows, D] goes over the ranks (see
// EnterPackedSdpa), and linear attention finds its ranks in PackedPartGroup().
// Backward passes may run behind it. May be entered often.
ScopeFactory PackedContext(AttentionGroup group);

// Where this thread's part lies, and whom it exchanges with; null outside such
// a scope, where a layer has whole documents.
std::shared_ptr<const PartGroup> PackedPartGroup();

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_PACKED_CONTEXT_H_
