#include "core/attention/composed_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/attention/flash_kernel.h"
#include "core/attention/index_tensor.h"

namespace cpfeed {
namespace {

constexpr int64_t kMostScores = int64_t{64} << 20;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Some query rows of a tile, with all its keys.
struct Block {
  int64_t q_begin;  // Packed rows.
  int64_t q_count;
  int64_t k_begin;
  int64_t k_count;
  std::vector<int32_t> begins;  // [q_count], of the visible keys.
  std::vector<int32_t> ends;
};

std::vector<Block> BlocksOf(const VarlenInputs& in) {
  std::vector<Block> blocks;
  for (size_t t = 0; t < in.batch.tiles.size(); ++t) {
    const Tile& tile = in.batch.tiles[t];
    const int64_t most_rows = std::max<int64_t>(
        1, kMostScores / std::max<int64_t>(1, in.q.size(1) * tile.k_rows));
    for (int64_t row = 0; row < tile.q_rows; row += most_rows) {
      Block block = {.q_begin = in.batch.q_splits[t] + row,
                     .q_count = std::min(most_rows, tile.q_rows - row),
                     .k_begin = in.batch.k_splits[t],
                     .k_count = tile.k_rows};
      for (int64_t i = row; i < row + block.q_count; ++i) {
        KeyRange keys = {0, static_cast<int32_t>(tile.k_rows)};
        if (tile.kind == Tile::Kind::kCausal) {
          keys.end = static_cast<int32_t>(i + 1);
        } else if (tile.kind == Tile::Kind::kBand) {
          keys = in.plan.bounds[tile.first_bound + i];
        }
        block.begins.push_back(keys.begin);
        block.ends.push_back(keys.end);
      }
      blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

// [q_count, k_count]: true where a query does not see a key.
at::Tensor Hidden(const Block& block, at::Device device) {
  const at::Tensor key =
      at::arange(block.k_count, at::TensorOptions(at::kInt).device(device));
  const at::Tensor begin = IndexTensor(block.begins, device).unsqueeze(1);
  const at::Tensor end = IndexTensor(block.ends, device).unsqueeze(1);
  return key.lt(begin).logical_or_(key.ge(end));
}

// Rows [begin, begin + count) with the heads in front, in `type`.
at::Tensor HeadsFirst(const at::Tensor& rows, int64_t begin, int64_t count,
                      at::ScalarType type) {
  return rows.narrow(0, begin, count).to(type).transpose(0, 1);
}

// The same of keys or values, once for each query head.
at::Tensor ForQueryHeads(const at::Tensor& rows, const Block& block,
                         int64_t heads, at::ScalarType type) {
  return HeadsFirst(rows, block.k_begin, block.k_count, type)
      .repeat_interleave(heads / rows.size(1), 0);
}

// [heads, q_count, k_count], -inf where hidden.
at::Tensor Scores(const VarlenInputs& in, const Block& block,
                  at::ScalarType type) {
  const at::Tensor q = HeadsFirst(in.q, block.q_begin, block.q_count, type);
  const at::Tensor k = ForQueryHeads(in.k, block, in.q.size(1), type);
  return at::matmul(q, k.transpose(1, 2))
      .mul_(in.scale)
      .masked_fill_(Hidden(block, in.q.device()), -kInfinity);
}

// exp(scores - lse), 0 for hidden pairs whatever lse is.
at::Tensor Probabilities(const at::Tensor& scores, const at::Tensor& lse) {
  const at::Tensor shifted = scores.sub(lse.unsqueeze(-1)).exp_();
  return shifted.masked_fill_(scores.eq(-kInfinity), 0);
}

// Sums the gradients of the query heads that share a head of keys.
void AddShared(const at::Tensor& grad, const Block& block,
               const at::Tensor& into) {
  const int64_t kv_heads = into.size(1);
  into.narrow(0, block.k_begin, block.k_count)
      .add_(grad.view({kv_heads, -1, grad.size(1), grad.size(2)})
                .sum(1)
                .transpose(0, 1));
}

}  // namespace

VarlenResult ComposedForward(const VarlenInputs& in) {
  const at::ScalarType type = AccumulatorType(in.q.scalar_type());
  const auto options = in.q.options().dtype(type);
  const int64_t heads = in.q.size(1);
  const at::Tensor out =
      at::empty({in.q.size(0), heads, in.v.size(2)}, options);
  const at::Tensor lse = at::empty({in.q.size(0), heads}, options);
  for (const Block& block : BlocksOf(in)) {
    const at::Tensor scores = Scores(in, block, type);
    const at::Tensor sums = at::logsumexp(scores, -1);
    const at::Tensor v = ForQueryHeads(in.v, block, heads, type);
    out.narrow(0, block.q_begin, block.q_count)
        .copy_(at::matmul(Probabilities(scores, sums), v).transpose(0, 1));
    lse.narrow(0, block.q_begin, block.q_count).copy_(sums.transpose(0, 1));
  }
  return {out, lse};
}

VarlenGrads ComposedBackward(const VarlenInputs& in, const at::Tensor& out,
                             const at::Tensor& lse, const at::Tensor& dout) {
  const at::ScalarType type = AccumulatorType(in.q.scalar_type());
  const auto options = in.q.options().dtype(type);
  const int64_t heads = in.q.size(1);
  const VarlenGrads grads = {at::zeros(in.q.sizes(), options),
                             at::zeros(in.k.sizes(), options),
                             at::zeros(in.v.sizes(), options)};
  for (const Block& block : BlocksOf(in)) {
    const auto queries = [&](const at::Tensor& rows) {
      return HeadsFirst(rows, block.q_begin, block.q_count, type);
    };
    const at::Tensor p = Probabilities(
        Scores(in, block, type),
        lse.narrow(0, block.q_begin, block.q_count).to(type).transpose(0, 1));
    const at::Tensor d = queries(dout);
    const at::Tensor k = ForQueryHeads(in.k, block, heads, type);
    const at::Tensor v = ForQueryHeads(in.v, block, heads, type);
    AddShared(at::matmul(p.transpose(1, 2), d), block, grads.dv);
    const at::Tensor row_sum = d.mul(queries(out)).sum(-1, /*keepdim=*/true);
    const at::Tensor ds =
        at::matmul(d, v.transpose(1, 2)).sub_(row_sum).mul_(p).mul_(in.scale);
    grads.dq.narrow(0, block.q_begin, block.q_count)
        .copy_(at::matmul(ds, k).transpose(0, 1));
    AddShared(at::matmul(ds.transpose(1, 2), queries(in.q)), block, grads.dk);
  }
  return grads;
}

}  // namespace cpfeed
