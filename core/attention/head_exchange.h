// Trades rows for heads: from some rows of all heads to all rows of some heads,
// and back.

#ifndef CPFEED_CORE_ATTENTION_HEAD_EXCHANGE_H_
#define CPFEED_CORE_ATTENTION_HEAD_EXCHANGE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/attention/row_runs.h"
#include "core/comm/communicator.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

// Among `size` consecutive ranks of a group that share their heads by HeadsAt.
// All ranks of the group make the same calls.
class HeadExchange {
 public:
  // This rank is one of [first_rank, first_rank + size). `group` outlives the
  // object.
  HeadExchange(const ShardPlan& plan, int first_rank, int size,
               Communicator& group);

  // The tokens that these ranks hold together, in stream order; padding is left
  // out.
  const std::vector<RowRun>& runs() const { return order_.runs; }
  int64_t num_rows() const {
    return static_cast<int64_t>(order_.source.size());
  }

  // Hands each rank its heads of this rank's rows. Of tensors [own rows, heads,
  // dim] the returned ones, [num_rows(), own share of heads, dim], have the
  // rows of all the ranks.
  //
  // Errors: those of the group.
  absl::StatusOr<std::vector<at::Tensor>> ToHeads(
      absl::Span<const at::Tensor> tensors);

  // What goes back.
  struct Share {
    at::Tensor rows;     // [num_rows(), own share of heads, dim]
    int64_t heads = 0;   // Of all ranks together.
    double padding = 0;  // What rows of padding get.
  };

  // The reverse, to [own rows, heads, dim] each. A head that several ranks
  // share gets the sum of theirs, added in the order of the ranks.
  //
  // Errors: those of the group.
  absl::StatusOr<std::vector<at::Tensor>> ToRows(
      absl::Span<const Share> shares);

 private:
  int64_t own_rows() const { return rows_[place_]; }

  const int first_rank_;
  const int size_;
  Communicator& group_;
  const int place_;            // Of this rank among the ranks.
  std::vector<int64_t> rows_;  // [size], of each rank's shard.
  int64_t all_rows_ = 0;
  StreamOrder order_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_HEAD_EXCHANGE_H_
