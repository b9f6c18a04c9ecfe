// Attention while blocks of keys and values go round a ring of ranks.

#ifndef CPFEED_CORE_ATTENTION_RING_PASS_H_
#define CPFEED_CORE_ATTENTION_RING_PASS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/attention/kv_exchange.h"
#include "core/attention/row_runs.h"
#include "core/comm/communicator.h"

namespace cpfeed {

// Some ranks of a group in a circle, each with a block of rows. All ranks of
// the group are in rings of the same size.
struct Ring {
  struct Member {
    int rank = 0;
    RowBuffer block;
  };
  std::vector<Member> members;
  int place = 0;  // Of this rank among the members.
};

// At step i the rank has the keys and values of the member i places before it,
// computes with them and meanwhile passes them on to the next place. Two
// receive buffers: the memory does not grow with the size of the ring. Blocks
// merge in the order of their arrival, the rank's own first.
//
// `inputs` has the rows of the rank's own block.
absl::StatusOr<AttentionOutput> RingForward(const AttentionInputs& inputs,
                                            const Ring& ring,
                                            Communicator& group);

// Keys and values go round as in the forward pass. The gradient of a block
// follows it one step behind: each rank adds its part and passes it on, the
// last rank to the block's owner, which adds its own. So size - 1 blocks of
// each kind are received, and the order of additions is fixed: the member after
// the owner first, the owner last.
//
// dk and dv are returned as they were summed up: float32, or float64 for
// float64 inputs; dq too.
absl::StatusOr<AttentionGrads> RingBackward(const AttentionInputs& inputs,
                                            const AttentionOutput& output,
                                            const at::Tensor& dout,
                                            const Ring& ring,
                                            Communicator& group);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_RING_PASS_H_
