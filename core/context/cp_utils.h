// NeMo AutoModel's cp_utils for LibTorch: its nine functions and where they
// are.
//
//   upstream                           here
//   _build_position_ids                BuildPositionIds
//   get_train_context                  TrainContext
//   create_context_parallel_ctx        ContextParallelContext
//   attach_context_parallel_hooks      AttachContextParallelHooks
//   attach_cp_sdpa_hooks               AttachCpSdpaHooks
//   attach_linear_attn_position_hooks  AttachLinearAttnPositionHooks
//   make_cp_batch_and_ctx              MakeCpBatchAndContext
//   make_cp_batch_for_te               MakeCpBatchForTe (the releases'
//                                      dictionaries, or the native mode)
//   _shard_thd_chunk_for_te            ShardThdChunkForTe
//
// A step that comes as shards of a packed stream has PackedContext in place of
// ContextParallelContext.
//
// What is different on purpose: rotate methods and SDPA are set for a scope of
// a thread, never for the process; hooks may be attached twice; a one-shot
// context that is entered twice is an error with a name; what
// TransformerEngine would mis-shard is refused.

#ifndef CPFEED_CORE_CONTEXT_CP_UTILS_H_
#define CPFEED_CORE_CONTEXT_CP_UTILS_H_

#include "core/context/attention_hooks.h"   // IWYU pragma: export
#include "core/context/context_parallel.h"  // IWYU pragma: export
#include "core/context/cp_batch.h"          // IWYU pragma: export
#include "core/context/cp_batch_te.h"       // IWYU pragma: export
#include "core/context/cp_batch_thd.h"      // IWYU pragma: export
#include "core/context/hookable_module.h"   // IWYU pragma: export
#include "core/context/packed_context.h"    // IWYU pragma: export
#include "core/context/train_context.h"     // IWYU pragma: export

#endif  // CPFEED_CORE_CONTEXT_CP_UTILS_H_
