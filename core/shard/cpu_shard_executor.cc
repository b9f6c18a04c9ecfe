#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/shard/scatter.h"
#include "core/shard/shard_executor.h"
#include "core/shard/source_order.h"
#include "core/shard/source_runs.h"
#include "core/shard/step_shards.h"
#include "core/thd/label_count.h"

namespace cpfeed {
namespace {

// From this mean length on a run is sliced out of the input, not copied. Below
// it a fragment's bookkeeping, here and in the transport, costs more than the
// copy.
constexpr int64_t kSliceBytes = 16 << 10;

// What the tensors of one chunk share.
struct ChunkContext {
  const ThdBatch& batch;
  const ThdChunk& chunk;
  const ShardPlan& plan;
  std::vector<int64_t> source_begins;  // [num_sequences]
  std::vector<SourceRuns> runs;        // [cp_size]
  std::vector<RankCopy> copies;        // Of all ranks, in the input's order.
};

ChunkContext MakeContext(const ThdBatch& batch, const ThdChunk& chunk,
                         const ShardPlan& plan) {
  ChunkContext context{.batch = batch,
                       .chunk = chunk,
                       .plan = plan,
                       .source_begins = SourceBegins(chunk)};
  context.runs.reserve(plan.ranks.size());
  for (const RankPlan& rank : plan.ranks) {
    context.runs.push_back(ComputeSourceRuns(chunk, rank));
  }
  context.copies = MergeBySource(context.runs);
  return context;
}

int64_t Product(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

Tensor GeneratePositions(const RankPlan& plan) {
  auto [bytes, out] = Buffer::Allocate(plan.num_tokens * sizeof(int64_t));
  auto* position = reinterpret_cast<int64_t*>(out);
  for (const Segment& segment : plan.segments) {
    const int64_t begin = segment.begin;
    for (int32_t i = 0; i < segment.length; ++i) position[i] = begin + i;
    position += segment.length;
  }
  std::fill_n(position, plan.pad_rows, 0);
  return Tensor{.dtype = DType::kInt64,
                .shape = {plan.num_tokens},
                .bytes = std::move(bytes)};
}

Tensor GeneratePaddingMask(const ThdChunk& chunk, const RankPlan& plan) {
  const int64_t num_tokens = plan.num_tokens;
  auto [bytes, out] = Buffer::Allocate(num_tokens);
  auto* masked = reinterpret_cast<uint8_t*>(out);
  // Most segments have no padding, and many are a few positions long.
  std::fill_n(masked, num_tokens, uint8_t{0});
  std::fill_n(masked + num_tokens - plan.pad_rows, plan.pad_rows, uint8_t{1});
  for (const Segment& segment : plan.segments) {
    const int64_t real = chunk.lengths.real[segment.sequence] - segment.begin;
    if (real < segment.length) {
      const int64_t kept = std::max<int64_t>(real, 0);
      std::fill_n(masked + kept, segment.length - kept, uint8_t{1});
    }
    masked += segment.length;
  }
  return Tensor{
      .dtype = DType::kBool, .shape = {num_tokens}, .bytes = std::move(bytes)};
}

// Continues the counting of each component of `pad`'s slot behind the last
// token that came from the input.
void ContinueCounting(const ChunkContext& context, const ThdTensor& tensor,
                      int64_t source_offset, const PadRun& pad,
                      std::byte* out) {
  const int64_t item = ItemSize(tensor.dtype);
  const int64_t components = Product(tensor.inner);
  const int64_t row_bytes = item * components;
  const int64_t source = context.chunk.source[pad.sequence];
  for (int64_t c = 0; c < components; ++c) {
    int64_t value = pad.begin;
    if (source > 0) {
      const int64_t last = context.source_begins[pad.sequence] + source - 1;
      value = pad.begin - source + 1 +
              ReadElement(tensor.tensor.bytes,
                          source_offset + last * row_bytes + c * item,
                          tensor.dtype);
    }
    FillCounting(tensor.dtype, value, pad.length, row_bytes, out + c * item);
  }
}

void FillPad(const ChunkContext& context, const ThdTensor& tensor,
             int64_t source_offset, const PadRun& pad, std::byte* out) {
  const int64_t count = pad.length * Product(tensor.inner);
  switch (tensor.fill) {
    case PadFill::kZero:
      return FillElements(tensor.dtype, 0, count, out);
    case PadFill::kOne:
      return FillElements(tensor.dtype, 1, count, out);
    case PadFill::kPaddingId:
      return FillElements(tensor.dtype, context.batch.padding_token_id, count,
                          out);
    case PadFill::kIgnoreLabel:
      return FillElements(tensor.dtype, kIgnoreLabel, count, out);
    case PadFill::kContinue:
      if (pad.sequence < 0) return FillElements(tensor.dtype, 0, count, out);
      return ContinueCounting(context, tensor, source_offset, pad, out);
  }
}

// One token tensor of the batch as the shards of one chunk see it.
class InputCut {
 public:
  InputCut(const ChunkContext& context, const ThdTensor& tensor)
      : context_(context),
        tensor_(tensor),
        outer_(Product(tensor.outer)),
        row_bytes_(Product(tensor.inner) * ItemSize(tensor.dtype)),
        outer_bytes_(context.batch.num_rows * context.batch.row_width *
                     row_bytes_) {}

  // The tensor of every rank.
  std::vector<Tensor> Cut() const {
    std::vector<Tensor> cuts;
    std::vector<std::byte*> outs;  // [cp_size]; null where the input is sliced.
    for (size_t rank = 0; rank < context_.runs.size(); ++rank) {
      const int64_t rows = context_.plan.ranks[rank].num_tokens;
      Tensor cut{.dtype = tensor_.dtype, .shape = LocalShape(rows)};
      std::byte* out = nullptr;
      if (ShouldSlice(rank)) {
        cut.bytes = Slice(rank);
      } else {
        std::tie(cut.bytes, out) = Buffer::Allocate(outer_ * rows * row_bytes_);
        Pad(rank, out);
      }
      cuts.push_back(std::move(cut));
      outs.push_back(out);
    }
    for (int64_t o = 0; o < outer_; ++o) {
      ScatterRows(tensor_.tensor.bytes, o * outer_bytes_, row_bytes_,
                  context_.copies, outs);
      for (size_t rank = 0; rank < outs.size(); ++rank) {
        if (outs[rank] == nullptr) continue;
        outs[rank] += context_.plan.ranks[rank].num_tokens * row_bytes_;
      }
    }
    return cuts;
  }

 private:
  Shape LocalShape(int64_t rows) const {
    Shape shape = tensor_.outer;
    shape.push_back(rows);
    shape.insert(shape.end(), tensor_.inner.begin(), tensor_.inner.end());
    return shape;
  }

  // Whether slicing pays: all rows from the input, in long runs.
  bool ShouldSlice(size_t rank) const {
    const SourceRuns& runs = context_.runs[rank];
    return runs.pads.empty() && !runs.copies.empty() &&
           context_.plan.ranks[rank].num_tokens * row_bytes_ /
                   static_cast<int64_t>(runs.copies.size()) >=
               kSliceBytes;
  }

  Buffer Slice(size_t rank) const {
    Buffer slice;
    for (int64_t o = 0; o < outer_; ++o) {
      slice.Append(SliceRows(tensor_.tensor.bytes, o * outer_bytes_, row_bytes_,
                             context_.runs[rank].copies));
    }
    return slice;
  }

  // Fills the rows of `out` that do not come from the input.
  void Pad(size_t rank, std::byte* out) const {
    const int64_t rows = context_.plan.ranks[rank].num_tokens;
    for (int64_t o = 0; o < outer_; ++o) {
      for (const PadRun& pad : context_.runs[rank].pads) {
        FillPad(context_, tensor_, o * outer_bytes_, pad,
                out + (o * rows + pad.row) * row_bytes_);
      }
    }
  }

  const ChunkContext& context_;
  const ThdTensor& tensor_;
  const int64_t outer_;
  const int64_t row_bytes_;
  const int64_t outer_bytes_;
};

// The tensor of every rank.
std::vector<Tensor> Cut(const ChunkContext& context, const ThdTensor& tensor) {
  if (tensor.origin == ThdTensor::Origin::kInput) {
    return InputCut(context, tensor).Cut();
  }
  std::vector<Tensor> cuts;
  for (const RankPlan& plan : context.plan.ranks) {
    cuts.push_back(tensor.origin == ThdTensor::Origin::kPositions
                       ? GeneratePositions(plan)
                       : GeneratePaddingMask(context.chunk, plan));
  }
  return cuts;
}

class CpuShardExecutor final : public ShardExecutor {
 public:
  absl::StatusOr<std::vector<StepShard>> Execute(
      const ThdBatch& batch,
      const std::vector<std::shared_ptr<const ShardPlan>>& plans)
      const override {
    CF_ASSIGN_OR_RETURN(std::vector<StepShard> shards,
                        StepShardsWithoutTensors(batch, plans));
    for (size_t i = 0; i < plans.size(); ++i) {
      const ChunkContext context =
          MakeContext(batch, batch.chunks[i], *plans[i]);
      for (const ThdTensor& tensor : batch.tensors) {
        std::vector<Tensor> cuts = Cut(context, tensor);
        for (size_t rank = 0; rank < shards.size(); ++rank) {
          AddTensor(tensor, std::move(cuts[rank]), shards[rank].chunks[i]);
        }
      }
    }
    CountLabelsOfStep(shards);
    return shards;
  }
};

}  // namespace

std::unique_ptr<ShardExecutor> MakeCpuShardExecutor() {
  return std::make_unique<CpuShardExecutor>();
}

}  // namespace cpfeed
