// Attention over tiles that lie behind each other: LibTorch's kernels for GPUs,
// and one that is composed of its elementary operations and runs anywhere.

#ifndef CPFEED_CORE_ATTENTION_VARLEN_KERNEL_H_
#define CPFEED_CORE_ATTENTION_VARLEN_KERNEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/attention/tile_plan.h"
#include "core/attention/varlen_inputs.h"

namespace cpfeed {

enum class VarlenKernel {
  kFlash,      // float16 and bfloat16 on a GPU.
  kEfficient,  // float32 on a GPU; its gradients differ from run to run.
  kComposed,   // Anything, anywhere: scores are written out, some rows a time.
};

// The fastest that can do it. `deterministic` asks for the same bits in every
// run.
VarlenKernel ChooseVarlenKernel(bool on_gpu, at::ScalarType dtype,
                                int64_t head_dim, int64_t value_dim,
                                Tile::Kind kind, bool deterministic);

// Attention of the packed queries over the packed keys.
VarlenResult VarlenForward(VarlenKernel kernel, const VarlenInputs& in);

// The gradients through these keys of the attention whose results over all keys
// are `out` and `lse` [num_q, num_heads], contiguous, and `dout` the gradient
// of `out`; see FlashBackward (flash_kernel.h).
VarlenGrads VarlenBackward(VarlenKernel kernel, const VarlenInputs& in,
                           const at::Tensor& out, const at::Tensor& lse,
                           const at::Tensor& dout);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_VARLEN_KERNEL_H_
