#include "core/thd/convert.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/batch/validate_batch.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace cpfeed {
namespace {

// [0, l0, l0 + l1, ...]. Validation has shown that the sum fits.
std::vector<int32_t> PrefixSums(const std::vector<int64_t>& lengths) {
  std::vector<int32_t> sums;
  sums.reserve(lengths.size() + 1);
  int64_t sum = 0;
  sums.push_back(0);
  for (const int64_t length : lengths) {
    sum += length;
    sums.push_back(static_cast<int32_t>(sum));
  }
  return sums;
}

int32_t Widest(const std::vector<int64_t>& lengths) {
  return static_cast<int32_t>(
      *std::max_element(lengths.begin(), lengths.end()));
}

// The sequences of `num_rows` rows from `first_row` on.
PackedLengths SliceRows(const PackedLengths& all, int64_t first_row,
                        int64_t num_rows) {
  const int64_t begin = all.row_splits[first_row];
  const int64_t end = all.row_splits[first_row + num_rows];
  PackedLengths slice;
  slice.real.assign(all.real.begin() + begin, all.real.begin() + end);
  slice.padded.assign(all.padded.begin() + begin, all.padded.begin() + end);
  for (int64_t row = first_row; row <= first_row + num_rows; ++row) {
    slice.row_splits.push_back(all.row_splits[row] - begin);
  }
  return slice;
}

ThdChunk MakeChunk(const BatchDescription& description, int64_t first_row,
                   int64_t num_rows) {
  const int64_t row_width = description.shape.row_width;
  ThdChunk chunk;
  chunk.lengths = SliceRows(description.lengths, first_row, num_rows);
  const auto source =
      description.source.begin() + description.lengths.row_splits[first_row];
  chunk.source.assign(source, source + chunk.lengths.num_sequences());
  chunk.source_begin = first_row * row_width;
  chunk.source_tokens = num_rows * row_width;
  chunk.cu_seqlens = PrefixSums(chunk.lengths.real);
  chunk.cu_seqlens_padded = PrefixSums(chunk.lengths.padded);
  chunk.total_tokens = chunk.cu_seqlens_padded.back();
  chunk.max_seqlen = Widest(chunk.lengths.real);
  chunk.max_seqlen_padded = Widest(chunk.lengths.padded);
  return chunk;
}

// A tensor of the batch whose token axes are `row_axis` and the one behind it.
ThdTensor FromInput(std::string name, const Tensor& tensor, int row_axis,
                    PadFill fill) {
  const auto& shape = tensor.shape;
  return ThdTensor{
      .name = std::move(name),
      .origin = ThdTensor::Origin::kInput,
      .dtype = tensor.dtype,
      .tensor = tensor,
      .outer = Shape(shape.begin(), shape.begin() + row_axis),
      .inner = Shape(shape.begin() + row_axis + 2, shape.end()),
      .fill = fill,
  };
}

ThdTensor Positions(const Tensor& given) {
  if (!given.empty()) {
    const int row_axis = static_cast<int>(given.shape.size()) - 2;
    return FromInput("position_ids", given, row_axis, PadFill::kContinue);
  }
  return ThdTensor{.name = "position_ids",
                   .origin = ThdTensor::Origin::kPositions,
                   .dtype = DType::kInt64,
                   .fill = PadFill::kContinue};
}

ThdTensor PaddingMask() {
  return ThdTensor{.name = "padding_mask",
                   .origin = ThdTensor::Origin::kPaddingMask,
                   .dtype = DType::kBool,
                   .fill = PadFill::kOne};
}

std::vector<ThdTensor> Tensors(const PackedBatch& batch) {
  const PadFill ids_fill =
      IsFloat(batch.input_ids.dtype) ? PadFill::kZero : PadFill::kPaddingId;
  std::vector<ThdTensor> tensors;
  tensors.push_back(FromInput("input_ids", batch.input_ids, 0, ids_fill));
  tensors.push_back(
      FromInput("labels", batch.labels, 0, PadFill::kIgnoreLabel));
  tensors.push_back(Positions(batch.position_ids));
  tensors.push_back(PaddingMask());
  for (const TokenTensor& extra : batch.extras) {
    tensors.push_back(FromInput(extra.name, extra.tensor,
                                extra.sequence_axis - 1, PadFill::kZero));
  }
  return tensors;
}

}  // namespace

absl::StatusOr<ThdBatch> ConvertToThd(const PackedBatch& batch,
                                      const BatchOptions& options) {
  CF_ASSIGN_OR_RETURN(const BatchDescription description,
                      ValidateBatch(batch, options));
  const int64_t num_rows = description.shape.num_rows;
  ThdBatch thd{.num_rows = num_rows,
               .row_width = description.shape.row_width,
               .padding_token_id = options.padding_token_id,
               .tensors = Tensors(batch)};
  const int64_t rows_per_chunk = num_rows / options.num_chunks;
  thd.chunks.reserve(options.num_chunks);
  for (int64_t row = 0; row < num_rows; row += rows_per_chunk) {
    thd.chunks.push_back(MakeChunk(description, row, rows_per_chunk));
  }
  return thd;
}

}  // namespace cpfeed
