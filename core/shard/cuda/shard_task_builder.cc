#include "core/shard/cuda/shard_task_builder.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/dtype.h"
#include "core/thd/label_count.h"

namespace cpfeed {
namespace {

// The kernel counts columns of a row, and a tile more, in 32 bits.
constexpr int64_t kMostRowBytes = int64_t{1} << 30;
constexpr int64_t kMostTiles = std::numeric_limits<int32_t>::max();

int64_t Product(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

int64_t RowBytes(const ThdTensor& tensor) {
  return Product(tensor.inner) * ItemSize(tensor.dtype);
}

int64_t FillValue(const ThdBatch& batch, PadFill fill) {
  switch (fill) {
    case PadFill::kOne:
      return 1;
    case PadFill::kPaddingId:
      return batch.padding_token_id;
    case PadFill::kIgnoreLabel:
      return kIgnoreLabel;
    default:
      return 0;
  }
}

ShardJobKind KindOf(const ThdTensor& tensor) {
  switch (tensor.origin) {
    case ThdTensor::Origin::kPositions:
      return ShardJobKind::kPositions;
    case ThdTensor::Origin::kPaddingMask:
      return ShardJobKind::kPaddingMask;
    case ThdTensor::Origin::kInput:
      break;
  }
  return tensor.fill == PadFill::kContinue ? ShardJobKind::kContinue
                                           : ShardJobKind::kCopy;
}

absl::Status CheckAligned(const ThdTensor& tensor, const void* address) {
  const auto item = static_cast<uint64_t>(ItemSize(tensor.dtype));
  const auto number = reinterpret_cast<uint64_t>(address);
  if (number % item == 0) return absl::OkStatus();
  return InvalidArgument(
      kShapeMismatch,
      absl::StrCat("address of ", tensor.name, " is ", number,
                   "; must be a multiple of its element of ", item, " bytes"));
}

absl::Status TooLarge(absl::string_view what, int64_t value, int64_t most) {
  return MakeError(absl::StatusCode::kResourceExhausted, kNotSupported,
                   absl::StrCat(what, " is ", value, "; one launch takes ",
                                most, " at most"));
}

template <class T>
int64_t PartBytes(const std::vector<T>& part) {
  return RoundUp(static_cast<int64_t>(part.size() * sizeof(T)),
                 kShardWordBytes);
}

template <class T>
const T* WritePart(const std::vector<T>& part, std::byte*& to,
                   const std::byte*& device) {
  const auto* const begin = reinterpret_cast<const T*>(device);
  if (!part.empty()) std::memcpy(to, part.data(), part.size() * sizeof(T));
  to += PartBytes(part);
  device += PartBytes(part);
  return begin;
}

}  // namespace

int64_t TokenTensorBytes(const ThdTensor& tensor, int64_t rows) {
  return Product(tensor.outer) * rows * RowBytes(tensor);
}

absl::Status ShardTaskBuilder::AddShard(const ThdChunk& chunk,
                                        const RankPlan& plan,
                                        absl::Span<const void* const> sources,
                                        absl::Span<void* const> outs) {
  CF_CHECK(sources.size() == batch_.tensors.size());
  CF_CHECK(outs.size() == batch_.tensors.size());
  if (plan.num_tokens == 0) return absl::OkStatus();
  const auto first_segment = static_cast<int32_t>(segments_.size());
  AddSegments(chunk, plan);
  if (segments_.size() > static_cast<size_t>(kMostTiles)) {
    return TooLarge("number of segments",
                    static_cast<int64_t>(segments_.size()), kMostTiles);
  }
  for (size_t t = 0; t < batch_.tensors.size(); ++t) {
    if (outs[t] == nullptr) continue;
    CF_RETURN_IF_ERROR(AddJob(batch_.tensors[t], plan.num_tokens, first_segment,
                              sources[t], outs[t]));
  }
  return absl::OkStatus();
}

void ShardTaskBuilder::AddSegments(const ThdChunk& chunk,
                                   const RankPlan& plan) {
  segments_.reserve(segments_.size() + plan.segments.size() + 1);
  int64_t row = 0;
  int32_t sequence = 0;
  int64_t source = chunk.source_begin;
  for (const Segment& segment : plan.segments) {
    for (; sequence < segment.sequence; ++sequence) {
      source += chunk.source[sequence];
    }
    segments_.push_back(
        {.row = static_cast<int32_t>(row),
         .length = segment.length,
         .begin = segment.begin,
         .real = static_cast<int32_t>(chunk.lengths.real[sequence]),
         .input = static_cast<int32_t>(chunk.source[sequence]),
         .source = static_cast<int32_t>(source)});
    row += segment.length;
  }
  if (row < plan.num_tokens) {
    segments_.push_back({.row = static_cast<int32_t>(row),
                         .length = static_cast<int32_t>(plan.num_tokens - row),
                         .begin = -1});
  }
}

absl::Status ShardTaskBuilder::AddJob(const ThdTensor& tensor, int64_t rows,
                                      int32_t first_segment, const void* source,
                                      void* out) {
  const int64_t row_bytes = RowBytes(tensor);
  const int64_t planes = Product(tensor.outer);
  if (row_bytes == 0 || planes == 0) return absl::OkStatus();
  if (row_bytes > kMostRowBytes) {
    return TooLarge(absl::StrCat("row of ", tensor.name), row_bytes,
                    kMostRowBytes);
  }
  const int64_t plane_bytes = rows * row_bytes;
  const int64_t tiles = planes * (plane_bytes / kShardTileBytes + 2);
  if (tiles > kMostTiles - static_cast<int64_t>(tiles_.size())) {
    return TooLarge("number of tiles",
                    tiles + static_cast<int64_t>(tiles_.size()), kMostTiles);
  }
  const bool from_input = tensor.origin == ThdTensor::Origin::kInput;
  if (from_input) CF_RETURN_IF_ERROR(CheckAligned(tensor, source));
  CF_RETURN_IF_ERROR(CheckAligned(tensor, out));
  const ShardJob job = {
      .source =
          from_input ? static_cast<const unsigned char*>(source) : nullptr,
      .out = static_cast<unsigned char*>(out),
      .source_plane_bytes =
          from_input ? batch_.num_rows * batch_.row_width * row_bytes : 0,
      .out_plane_bytes = plane_bytes,
      .fill = FillValue(batch_, tensor.fill),
      .row_bytes = static_cast<int32_t>(row_bytes),
      .item_bytes = static_cast<int32_t>(ItemSize(tensor.dtype)),
      .kind = KindOf(tensor)};
  AddTiles(job, planes, first_segment);
  jobs_.push_back(job);
  out_bytes_ += planes * plane_bytes;
  return absl::OkStatus();
}

void ShardTaskBuilder::AddTiles(const ShardJob& job, int64_t planes,
                                int32_t first_segment) {
  const auto end_segment = static_cast<int32_t>(segments_.size());
  for (int64_t plane = 0; plane < planes; ++plane) {
    const auto address =
        reinterpret_cast<uint64_t>(job.out + plane * job.out_plane_bytes);
    int32_t segment = first_segment;
    int64_t begin = 0;
    // Tiles end where words of the output end, so that none is shared.
    int64_t end =
        kShardTileBytes - static_cast<int64_t>(address % kShardWordBytes);
    for (; begin < job.out_plane_bytes; begin = end, end += kShardTileBytes) {
      end = std::min(end, job.out_plane_bytes);
      const auto row = static_cast<int32_t>(begin / job.row_bytes);
      const auto last_row = static_cast<int32_t>((end - 1) / job.row_bytes);
      while (segment + 1 < end_segment && segments_[segment + 1].row <= row) {
        ++segment;
      }
      int32_t last = segment;
      while (last + 1 < end_segment && segments_[last + 1].row <= last_row) {
        ++last;
      }
      tiles_.push_back({.job = static_cast<int32_t>(jobs_.size()),
                        .plane = static_cast<int32_t>(plane),
                        .row = row,
                        .column = static_cast<int32_t>(begin % job.row_bytes),
                        .bytes = static_cast<int32_t>(end - begin),
                        .first_segment = segment,
                        .num_segments = last - segment + 1});
    }
  }
}

int64_t ShardTaskBuilder::DescriptorBytes() const {
  return PartBytes(segments_) + PartBytes(jobs_) + PartBytes(tiles_);
}

ShardTask ShardTaskBuilder::Write(std::byte* to, const void* device) const {
  const auto* at = static_cast<const std::byte*>(device);
  ShardTask task;
  task.segments = WritePart(segments_, to, at);
  task.jobs = WritePart(jobs_, to, at);
  task.tiles = WritePart(tiles_, to, at);
  task.num_tiles = static_cast<int32_t>(tiles_.size());
  return task;
}

}  // namespace cpfeed
