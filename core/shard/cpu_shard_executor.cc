#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/shard/gather.h"
#include "core/shard/shard_executor.h"
#include "core/shard/source_runs.h"
#include "core/thd/label_count.h"

namespace cpfeed {
namespace {

// From this mean length on a run is sliced out of the input, not copied. Below
// it a fragment's bookkeeping, here and in the transport, costs more than the
// copy.
constexpr int64_t kSliceBytes = 16 << 10;

// Everything about one rank of one chunk that its tensors share.
struct RankContext {
  const ThdBatch& batch;
  const ThdChunk& chunk;
  const RankPlan& plan;
  const std::vector<int64_t>& source_begins;
  SourceRuns runs;
};

int64_t Product(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

Tensor GeneratePositions(const RankContext& context) {
  auto [bytes, out] =
      Buffer::Allocate(context.plan.num_tokens * sizeof(int64_t));
  auto* position = reinterpret_cast<int64_t*>(out);
  for (const Segment& segment : context.plan.segments) {
    const int64_t begin = segment.begin;
    for (int32_t i = 0; i < segment.length; ++i) position[i] = begin + i;
    position += segment.length;
  }
  std::fill_n(position, context.plan.pad_rows, 0);
  return Tensor{.dtype = DType::kInt64,
                .shape = {context.plan.num_tokens},
                .bytes = std::move(bytes)};
}

Tensor GeneratePaddingMask(const RankContext& context) {
  auto [bytes, out] = Buffer::Allocate(context.plan.num_tokens);
  auto* masked = reinterpret_cast<uint8_t*>(out);
  for (const Segment& segment : context.plan.segments) {
    const int64_t real = std::clamp<int64_t>(
        context.chunk.lengths.real[segment.sequence] - segment.begin, 0,
        segment.length);
    std::fill_n(masked, real, uint8_t{0});
    std::fill_n(masked + real, segment.length - real, uint8_t{1});
    masked += segment.length;
  }
  std::fill_n(masked, context.plan.pad_rows, uint8_t{1});
  return Tensor{.dtype = DType::kBool,
                .shape = {context.plan.num_tokens},
                .bytes = std::move(bytes)};
}

// Continues the counting of each component of `pad`'s slot behind the last
// token that came from the input.
void ContinueCounting(const RankContext& context, const ThdTensor& tensor,
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

void FillPad(const RankContext& context, const ThdTensor& tensor,
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

// Whether slicing pays: all rows from the input, in long runs.
bool ShouldSlice(const RankContext& context, int64_t row_bytes) {
  const auto& copies = context.runs.copies;
  return context.runs.pads.empty() && !copies.empty() &&
         context.plan.num_tokens * row_bytes / copies.size() >= kSliceBytes;
}

Tensor CutInput(const RankContext& context, const ThdTensor& tensor) {
  const int64_t rows = context.plan.num_tokens;
  const int64_t outer = Product(tensor.outer);
  const int64_t row_bytes = Product(tensor.inner) * ItemSize(tensor.dtype);
  const int64_t outer_bytes =
      context.batch.num_rows * context.batch.row_width * row_bytes;
  Shape shape = tensor.outer;
  shape.push_back(rows);
  shape.insert(shape.end(), tensor.inner.begin(), tensor.inner.end());
  Tensor cut{.dtype = tensor.dtype, .shape = std::move(shape)};
  if (ShouldSlice(context, row_bytes)) {
    for (int64_t o = 0; o < outer; ++o) {
      cut.bytes.Append(SliceRows(tensor.tensor.bytes, o * outer_bytes,
                                 row_bytes, context.runs.copies));
    }
    return cut;
  }
  auto [bytes, out] = Buffer::Allocate(outer * rows * row_bytes);
  for (int64_t o = 0; o < outer; ++o) {
    std::byte* const plane = out + o * rows * row_bytes;
    GatherRows(tensor.tensor.bytes, o * outer_bytes, row_bytes,
               context.runs.copies, plane);
    for (const PadRun& pad : context.runs.pads) {
      FillPad(context, tensor, o * outer_bytes, pad,
              plane + pad.row * row_bytes);
    }
  }
  cut.bytes = std::move(bytes);
  return cut;
}

Tensor Cut(const RankContext& context, const ThdTensor& tensor) {
  switch (tensor.origin) {
    case ThdTensor::Origin::kPositions:
      return GeneratePositions(context);
    case ThdTensor::Origin::kPaddingMask:
      return GeneratePaddingMask(context);
    case ThdTensor::Origin::kInput:
      break;
  }
  return CutInput(context, tensor);
}

absl::Status CheckPlan(const ThdChunk& chunk, const ShardPlan& plan,
                       size_t chunk_number) {
  if (plan.lengths.real == chunk.lengths.real &&
      plan.lengths.padded == chunk.lengths.padded &&
      plan.ranks.size() == static_cast<size_t>(plan.cp_size)) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kShapeMismatch,
      absl::StrCat("plan of chunk ", chunk_number, " is of other lengths"));
}

class CpuShardExecutor final : public ShardExecutor {
 public:
  absl::StatusOr<std::vector<StepShard>> Execute(
      const ThdBatch& batch,
      const std::vector<std::shared_ptr<const ShardPlan>>& plans)
      const override {
    if (plans.empty() || plans.size() != batch.chunks.size()) {
      return InvalidArgument(kShapeMismatch,
                             absl::StrCat(plans.size(), " plans for ",
                                          batch.chunks.size(), " chunks"));
    }
    const int cp_size = plans[0]->cp_size;
    std::vector<StepShard> shards(cp_size);
    for (StepShard& shard : shards) {
      shard.num_label_tokens_global = batch.num_label_tokens;
      shard.chunks.reserve(plans.size());
    }
    for (size_t i = 0; i < plans.size(); ++i) {
      CF_RETURN_IF_ERROR(CheckPlan(batch.chunks[i], *plans[i], i));
      if (plans[i]->cp_size != cp_size) {
        return InvalidArgument(
            kTopologyMismatch,
            absl::StrCat("plan of chunk ", i, " is for ", plans[i]->cp_size,
                         " ranks; must be ", cp_size));
      }
      CutChunk(batch, batch.chunks[i], plans[i], shards);
    }
    return shards;
  }

 private:
  static void CutChunk(const ThdBatch& batch, const ThdChunk& chunk,
                       const std::shared_ptr<const ShardPlan>& plan,
                       std::vector<StepShard>& shards) {
    const auto shared_chunk = std::make_shared<const ThdChunk>(chunk);
    const std::vector<int64_t> source_begins = SourceBegins(chunk);
    for (int rank = 0; rank < plan->cp_size; ++rank) {
      const RankPlan& rank_plan = plan->ranks[rank];
      const RankContext context{.batch = batch,
                                .chunk = chunk,
                                .plan = rank_plan,
                                .source_begins = source_begins,
                                .runs = ComputeSourceRuns(chunk, rank_plan)};
      Shard shard{.cp_rank = rank,
                  .plan = plan,
                  .chunk = shared_chunk,
                  .local = ComputeLocalCuSeqlens(*plan, rank),
                  .num_tokens = rank_plan.num_tokens};
      shard.tensors.reserve(batch.tensors.size());
      for (const ThdTensor& tensor : batch.tensors) {
        shard.tensors.push_back(
            {.name = tensor.name,
             .tensor = Cut(context, tensor),
             .token_axis = static_cast<int>(tensor.outer.size())});
        if (tensor.fill == PadFill::kIgnoreLabel) {
          shard.num_label_tokens =
              CountLabelTokens(shard.tensors.back().tensor);
        }
      }
      shards[rank].chunks.push_back(std::move(shard));
    }
  }
};

}  // namespace

std::unique_ptr<ShardExecutor> MakeCpuShardExecutor() {
  return std::make_unique<CpuShardExecutor>();
}

}  // namespace cpfeed
