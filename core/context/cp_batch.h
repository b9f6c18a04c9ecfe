// Batches of tensors by name, on their way into a context-parallel step.

#ifndef CPFEED_CORE_CONTEXT_CP_BATCH_H_
#define CPFEED_CORE_CONTEXT_CP_BATCH_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/batch/parity.h"
#include "core/comm/communicator.h"
#include "core/context/scope.h"

namespace cpfeed {

using TensorBatch = std::map<std::string, at::Tensor>;

// Adds position_ids, [1, S] int64 of 0, 1, ..., where the batch has none, for
// input_ids [B, S]. Others are kept.
//
// Errors:
//   INVALID_ARGUMENT  No input_ids of at least two axes (reason KeyError).
absl::Status BuildPositionIds(TensorBatch& batch);

struct CpBatchOptions {
  // 0.4 refuses a width that 2 * cp_size does not divide; 0.7 and native pad
  // it: labels by -100, padding_mask by true, everything else by 0. 0.7 gives
  // every row positions of its own, [B, S].
  Parity parity = Parity::kNative;
};

// make_cp_batch_and_ctx for BSHD batches (with TransformerEngine's THD batches
// it is MakeCpBatchForTe and NoScope()).
//
// Without a group, or with one rank, the batch is left alone and the scope
// changes nothing. Else attention_mask is removed, position_ids are added
// ([1, S]) where there are none, and the scope (see ContextParallelContext,
// "allgather") shards input_ids, labels, position_ids ([B, S] or [n_rope, B,
// S]), and loss_mask and padding_mask where they are there. Behind it only
// position_ids are whole. The batch outlives the scope, and its tensors are
// not replaced inside it.
//
// `loss_mask` is a tensor beside the batch; null for none.
//
// Errors:
//   INVALID_ARGUMENT  No labels, which travel shifted already and cannot be
//                     made up, or no input_ids (reason KeyError); with 0.7 and
//                     native both input_ids and inputs_embeds, or neither
//                     (reason AssertionError). On entry those of
//                     ContextParallelContext (0.4: AssertionError).
absl::StatusOr<ScopeFactory> MakeCpBatchAndContext(
    std::shared_ptr<Communicator> group, TensorBatch& batch,
    at::Tensor* loss_mask = nullptr, const CpBatchOptions& options = {});

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_CP_BATCH_H_
