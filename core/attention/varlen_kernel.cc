#include "core/attention/varlen_kernel.h"

#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "core/attention/composed_attention.h"
#include "core/attention/index_tensor.h"

namespace cpfeed {
namespace {

constexpr int64_t kFlashMostColumns = 256;
constexpr int64_t kFlashColumnMultiple = 8;
// 16 bytes of float32.
constexpr int64_t kEfficientColumnMultiple = 4;
// Rows of the efficient kernel's lse are padded to a multiple of it.
constexpr int64_t kEfficientLseRows = 32;
// _efficient_attention's custom_mask_type: causal from the top left.
constexpr int64_t kNoMask = 0;
constexpr int64_t kCausalMask = 1;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Zeros behind q and k leave the scores as they are; zeros behind v add columns
// that are cut off.
at::Tensor Padded(const at::Tensor& rows, int64_t columns) {
  const int64_t missing = columns - rows.size(-1);
  return missing == 0 ? rows : at::constant_pad_nd(rows, {0, missing});
}

// What both kernels are given beside the rows.
struct Splits {
  explicit Splits(const VarlenInputs& in)
      : q(IndexTensor(in.batch.q_splits, in.q.device())),
        k(IndexTensor(in.batch.k_splits, in.q.device())),
        max_q(in.batch.max_q),
        max_k(in.batch.max_k),
        causal(in.batch.kind == Tile::Kind::kCausal) {}

  at::Tensor q;  // int32 [tiles + 1]
  at::Tensor k;
  int64_t max_q;
  int64_t max_k;
  bool causal;
};

int64_t FlashColumns(const VarlenInputs& in) {
  return RoundUp(std::max(in.q.size(2), in.v.size(2)), kFlashColumnMultiple);
}

VarlenResult FlashVarlenForward(const VarlenInputs& in) {
  const Splits splits(in);
  const int64_t columns = FlashColumns(in);
  // lse is [heads, rows]. Of a causal tile both sides are as long, so that it
  // does not matter at which corner the kernel aligns the mask.
  const auto result = at::_flash_attention_forward(
      Padded(in.q, columns), Padded(in.k, columns), Padded(in.v, columns),
      splits.q, splits.k, splits.max_q, splits.max_k, /*dropout_p=*/0.0,
      splits.causal, /*return_debug_mask=*/false, in.scale);
  return {std::get<0>(result).narrow(-1, 0, in.v.size(2)),
          std::get<1>(result).transpose(0, 1)};
}

VarlenGrads FlashVarlenBackward(const VarlenInputs& in, const at::Tensor& out,
                                const at::Tensor& lse, const at::Tensor& dout) {
  const Splits splits(in);
  const int64_t columns = FlashColumns(in);
  // Without dropout nobody reads the state of random numbers.
  const auto no_random = in.q.options().dtype(at::kUInt64);
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      Padded(dout, columns), Padded(in.q, columns), Padded(in.k, columns),
      Padded(in.v, columns), Padded(out, columns),
      lse.transpose(0, 1).contiguous(), splits.q, splits.k, splits.max_q,
      splits.max_k, /*dropout_p=*/0.0, splits.causal, at::empty({2}, no_random),
      at::empty({}, no_random), in.scale);
  return {dq.narrow(-1, 0, in.q.size(2)), dk.narrow(-1, 0, in.k.size(2)),
          dv.narrow(-1, 0, in.v.size(2))};
}

// The efficient kernel knows no shared heads, and wants a batch axis.
at::Tensor ForEfficient(const at::Tensor& rows, int64_t heads) {
  const int64_t columns = RoundUp(rows.size(2), kEfficientColumnMultiple);
  const at::Tensor padded = Padded(rows, columns);
  const int64_t shared = heads / rows.size(1);
  return (shared == 1 ? padded : padded.repeat_interleave(shared, 1))
      .unsqueeze(0);
}

at::Tensor FromEfficient(const at::Tensor& rows, const at::Tensor& like) {
  const at::Tensor cut = rows.squeeze(0).narrow(-1, 0, like.size(2));
  if (cut.size(1) == like.size(1)) return cut;
  return cut.reshape({cut.size(0), like.size(1), -1, cut.size(2)}).sum(2);
}

// Where packed query rows are in the kernel's lse [tiles, heads, padded rows],
// as [tiles * padded rows].
at::Tensor EfficientLseRows(const VarlenInputs& in, int64_t padded_rows) {
  std::vector<int64_t> places;
  places.reserve(in.batch.num_q());
  for (size_t t = 0; t < in.batch.tiles.size(); ++t) {
    for (int64_t i = 0; i < in.batch.tiles[t].q_rows; ++i) {
      places.push_back(static_cast<int64_t>(t) * padded_rows + i);
    }
  }
  return IndexTensor(places, in.q.device());
}

VarlenResult EfficientForward(const VarlenInputs& in) {
  const Splits splits(in);
  const int64_t heads = in.q.size(1);
  const auto result = at::_efficient_attention_forward(
      ForEfficient(in.q, heads), ForEfficient(in.k, heads),
      ForEfficient(in.v, heads), /*bias=*/std::nullopt, splits.q, splits.k,
      splits.max_q, splits.max_k, /*dropout_p=*/0.0,
      splits.causal ? kCausalMask : kNoMask, /*compute_log_sumexp=*/true,
      in.scale);
  const at::Tensor& lse = std::get<1>(result);
  return {std::get<0>(result).squeeze(0).narrow(-1, 0, in.v.size(2)),
          lse.transpose(1, 2)
              .reshape({-1, heads})
              .index_select(0, EfficientLseRows(in, lse.size(2)))};
}

VarlenGrads EfficientBackward(const VarlenInputs& in, const at::Tensor& out,
                              const at::Tensor& lse, const at::Tensor& dout) {
  const Splits splits(in);
  const int64_t heads = in.q.size(1);
  const int64_t padded_rows = RoundUp(splits.max_q, kEfficientLseRows);
  const auto tiles = static_cast<int64_t>(in.batch.tiles.size());
  at::Tensor padded_lse =
      at::full({tiles * padded_rows, heads},
               std::numeric_limits<double>::infinity(), lse.options());
  padded_lse.index_copy_(0, EfficientLseRows(in, padded_rows), lse);
  const auto no_random = at::TensorOptions(at::kLong);
  const auto [dq, dk, dv, dbias] = at::_efficient_attention_backward(
      ForEfficient(dout, heads), ForEfficient(in.q, heads),
      ForEfficient(in.k, heads), ForEfficient(in.v, heads),
      /*bias=*/std::nullopt, ForEfficient(out, heads), splits.q, splits.k,
      splits.max_q, splits.max_k,
      padded_lse.view({tiles, padded_rows, heads}).transpose(1, 2).contiguous(),
      /*dropout_p=*/0.0, at::empty({}, no_random), at::empty({}, no_random),
      splits.causal ? kCausalMask : kNoMask, /*bias_requires_grad=*/false,
      in.scale);
  return {FromEfficient(dq, in.q), FromEfficient(dk, in.k),
          FromEfficient(dv, in.v)};
}

}  // namespace

VarlenKernel ChooseVarlenKernel(bool on_gpu, at::ScalarType dtype,
                                int64_t head_dim, int64_t value_dim,
                                Tile::Kind kind, bool deterministic) {
  if (!on_gpu || kind == Tile::Kind::kBand) return VarlenKernel::kComposed;
  if (dtype == at::kHalf || dtype == at::kBFloat16) {
    return std::max(head_dim, value_dim) <= kFlashMostColumns
               ? VarlenKernel::kFlash
               : VarlenKernel::kComposed;
  }
  return dtype == at::kFloat && !deterministic ? VarlenKernel::kEfficient
                                               : VarlenKernel::kComposed;
}

VarlenResult VarlenForward(VarlenKernel kernel, const VarlenInputs& in) {
  switch (kernel) {
    case VarlenKernel::kFlash:
      return FlashVarlenForward(in);
    case VarlenKernel::kEfficient:
      return EfficientForward(in);
    case VarlenKernel::kComposed:
      break;
  }
  return ComposedForward(in);
}

VarlenGrads VarlenBackward(VarlenKernel kernel, const VarlenInputs& in,
                           const at::Tensor& out, const at::Tensor& lse,
                           const at::Tensor& dout) {
  switch (kernel) {
    case VarlenKernel::kFlash:
      return FlashVarlenBackward(in, out, lse, dout);
    case VarlenKernel::kEfficient:
      return EfficientBackward(in, out, lse, dout);
    case VarlenKernel::kComposed:
      break;
  }
  return ComposedBackward(in, out, lse, dout);
}

}  // namespace cpfeed
