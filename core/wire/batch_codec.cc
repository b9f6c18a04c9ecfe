#include "core/wire/batch_codec.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/tensor.h"
#include "core/wire/tensor_codec.h"

namespace cpfeed {
namespace {

constexpr char kSeqLens[] = "seq_lens";
constexpr char kSeqLensPadded[] = "seq_lens_padded";
constexpr char kSequencesPerRow[] = "sequences_per_row";
// Beside it where seq_lens_padded has other counts: a mistake of the loader,
// but the server's to tell.
constexpr char kSequencesPerRowPadded[] = "sequences_per_row_padded";

absl::StatusOr<std::vector<int64_t>> RowSplits(const Tensor& per_row) {
  CF_ASSIGN_OR_RETURN(const std::vector<int64_t> counts, per_row.ToInt64());
  std::vector<int64_t> splits = {0};
  splits.reserve(counts.size() + 1);
  for (const int64_t count : counts) {
    const std::optional<int64_t> next = CheckedAdd(splits.back(), count);
    if (count < 0 || !next) {
      return InvalidArgument(
          kLengthsInconsistent,
          absl::StrCat("sequences_per_row of row ", splits.size() - 1, " is ",
                       count, "; must not be negative"));
    }
    splits.push_back(*next);
  }
  return splits;
}

// Lengths are [B, P], with filler at the end of rows, or [N] with row splits.
absl::StatusOr<RaggedLengths> DecodeLengths(
    absl::string_view name, const Tensor& tensor,
    const std::optional<std::vector<int64_t>>& splits) {
  absl::StatusOr<std::vector<int64_t>> values = tensor.ToInt64();
  if (!values.ok()) return Annotate(values.status(), name);
  RaggedLengths lengths{.values = *std::move(values)};
  if (tensor.shape.size() == 2) {
    const int64_t rows = tensor.shape[0];
    // A row of no columns takes no bytes, so the count of rows is a mere claim.
    if (rows > 0 && tensor.shape[1] == 0 && rows > (1 << 20)) {
      return InvalidArgument(kBatchTooLarge,
                             absl::StrCat(name, " has ", rows, " rows"));
    }
    lengths.row_splits.resize(rows + 1);
    for (int64_t i = 0; i <= rows; ++i) {
      lengths.row_splits[i] = i * tensor.shape[1];
    }
    return lengths;
  }
  if (tensor.shape.size() != 1 || !splits) {
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat(name, " has shape ", ShapeString(tensor.shape),
                     "; must be [rows, most sequences of a row], or [all "
                     "sequences] beside sequences_per_row"));
  }
  if (splits->back() != static_cast<int64_t>(lengths.values.size())) {
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat("sequences_per_row sums to ", splits->back(), "; ", name,
                     " has ", lengths.values.size(), " entries"));
  }
  lengths.row_splits = *splits;
  return lengths;
}

// Where a tensor of this name goes; null where it is an extra.
Tensor* Place(absl::string_view name, PackedBatch& batch) {
  if (name == "input_ids") return &batch.input_ids;
  if (name == "labels") return &batch.labels;
  if (name == "position_ids") return &batch.position_ids;
  if (name == "attention_mask") return &batch.attention_mask;
  if (name == "padding_mask") return &batch.padding_mask;
  return nullptr;
}

bool IsLengths(absl::string_view name) {
  return name == kSeqLens || name == kSeqLensPadded ||
         name == kSequencesPerRow || name == kSequencesPerRowPadded;
}

// The row splits that the tensor `name` gives, if it is there.
absl::StatusOr<std::optional<std::vector<int64_t>>> FindSplits(
    const std::vector<NamedTensor>& tensors, absl::string_view name) {
  for (const NamedTensor& named : tensors) {
    if (named.name != name) continue;
    absl::StatusOr<std::vector<int64_t>> splits = RowSplits(named.tensor);
    if (!splits.ok()) return Annotate(splits.status(), name);
    return std::optional(*std::move(splits));
  }
  return std::nullopt;
}

absl::Status TakeLengths(const std::vector<NamedTensor>& tensors,
                         PackedBatch& batch) {
  CF_ASSIGN_OR_RETURN(const auto splits, FindSplits(tensors, kSequencesPerRow));
  CF_ASSIGN_OR_RETURN(const auto padded_splits,
                      FindSplits(tensors, kSequencesPerRowPadded));
  for (const NamedTensor& named : tensors) {
    if (named.name == kSeqLens) {
      CF_ASSIGN_OR_RETURN(batch.seq_lens,
                          DecodeLengths(named.name, named.tensor, splits));
    } else if (named.name == kSeqLensPadded) {
      CF_ASSIGN_OR_RETURN(
          batch.seq_lens_padded,
          DecodeLengths(named.name, named.tensor,
                        padded_splits ? padded_splits : splits));
    }
  }
  return absl::OkStatus();
}

// `axes` are the sequence axes of the tensors, 0 for the default.
absl::StatusOr<PackedBatch> BatchFromTensors(std::vector<NamedTensor> tensors,
                                             const std::vector<int>& axes) {
  PackedBatch batch;
  CF_RETURN_IF_ERROR(TakeLengths(tensors, batch));
  for (size_t i = 0; i < tensors.size(); ++i) {
    NamedTensor& named = tensors[i];
    if (IsLengths(named.name)) continue;
    if (Tensor* place = Place(named.name, batch)) {
      *place = std::move(named.tensor);
      continue;
    }
    batch.extras.push_back({.name = std::move(named.name),
                            .tensor = std::move(named.tensor),
                            .sequence_axis = axes[i] == 0 ? 1 : axes[i]});
  }
  if (batch.input_ids.empty()) {
    return InvalidArgument(kBatchMalformed, "batch has no input_ids");
  }
  return batch;
}

using RowField =
    const google::protobuf::RepeatedField<int64_t>& (v1::BatchRow::*)() const;

// One token tensor of all rows, [B, S]. Empty rows everywhere: no tensor.
absl::StatusOr<Tensor> RowsToTensor(const v1::PutBatchRequest& request,
                                    absl::string_view name, RowField field) {
  const int64_t width = (request.rows(0).*field)().size();
  std::vector<int64_t> values;
  for (int i = 0; i < request.rows_size(); ++i) {
    const auto& row = (request.rows(i).*field)();
    if (row.size() != width) {
      return InvalidArgument(
          kShapeMismatch,
          absl::StrCat("row ", i, ": ", name, " has ", row.size(),
                       " values; must be ", width, " as in row 0"));
    }
    values.insert(values.end(), row.begin(), row.end());
  }
  if (width == 0) return Tensor();
  return Tensor::FromVector<int64_t>({request.rows_size(), width},
                                     std::move(values));
}

std::optional<RaggedLengths> RowsToLengths(const v1::PutBatchRequest& request,
                                           RowField field) {
  RaggedLengths lengths{.row_splits = {0}};
  for (const v1::BatchRow& row : request.rows()) {
    lengths.values.insert(lengths.values.end(), (row.*field)().begin(),
                          (row.*field)().end());
    lengths.row_splits.push_back(static_cast<int64_t>(lengths.values.size()));
  }
  if (lengths.values.empty()) return std::nullopt;
  return lengths;
}

absl::StatusOr<PackedBatch> BatchFromRows(const v1::PutBatchRequest& request) {
  PackedBatch batch;
  CF_ASSIGN_OR_RETURN(batch.input_ids, RowsToTensor(request, "input_ids",
                                                    &v1::BatchRow::input_ids));
  CF_ASSIGN_OR_RETURN(batch.labels,
                      RowsToTensor(request, "labels", &v1::BatchRow::labels));
  CF_ASSIGN_OR_RETURN(
      batch.position_ids,
      RowsToTensor(request, "position_ids", &v1::BatchRow::position_ids));
  batch.seq_lens = RowsToLengths(request, &v1::BatchRow::seq_lens);
  batch.seq_lens_padded =
      RowsToLengths(request, &v1::BatchRow::seq_lens_padded);
  if (batch.input_ids.empty()) {
    return InvalidArgument(kBatchMalformed, "batch has no input_ids");
  }
  return batch;
}

void EncodeInt64(absl::string_view name, std::vector<int64_t> values,
                 EncodedBatch& encoded) {
  const auto count = static_cast<int64_t>(values.size());
  EncodeTensor(name, Tensor::FromVector<int64_t>({count}, std::move(values)), 0,
               *encoded.header.mutable_tensors(), encoded.payload);
}

std::vector<int64_t> Counts(const RaggedLengths& lengths) {
  std::vector<int64_t> counts(lengths.row_splits.size());
  std::adjacent_difference(lengths.row_splits.begin(), lengths.row_splits.end(),
                           counts.begin());
  counts.erase(counts.begin());
  return counts;
}

void EncodeLengths(const PackedBatch& batch, EncodedBatch& encoded) {
  if (batch.seq_lens) {
    EncodeInt64(kSequencesPerRow, Counts(*batch.seq_lens), encoded);
    EncodeInt64(kSeqLens, batch.seq_lens->values, encoded);
  }
  if (batch.seq_lens_padded) {
    const RaggedLengths& padded = *batch.seq_lens_padded;
    if (!batch.seq_lens || batch.seq_lens->row_splits != padded.row_splits) {
      EncodeInt64(kSequencesPerRowPadded, Counts(padded), encoded);
    }
    EncodeInt64(kSeqLensPadded, padded.values, encoded);
  }
}

}  // namespace

absl::StatusOr<int64_t> CheckBatchHeader(const v1::BatchHeader& header,
                                         int64_t max_batch_bytes) {
  if (header.sequence() < 0) {
    return InvalidArgument(kBatchMalformed,
                           absl::StrCat("sequence is ", header.sequence(),
                                        "; must not be negative"));
  }
  const int64_t state = header.producer_state_bytes();
  if (state < 0 || state > kMaxProducerStateBytes) {
    return InvalidArgument(
        kBatchMalformed,
        absl::StrCat("producer_state has ", state, " bytes; must be 0 to ",
                     kMaxProducerStateBytes));
  }
  CF_ASSIGN_OR_RETURN(const int64_t tensors,
                      CheckTensorSpecs(header.tensors()));
  if (tensors > max_batch_bytes) {
    return InvalidArgument(
        kBatchTooLarge,
        absl::StrCat("batch has ", tensors, " bytes; must be at most ",
                     max_batch_bytes,
                     tensors > INT32_MAX ? " (and is above 2 GiB)" : "",
                     "; see limits.max_batch_bytes of the session"));
  }
  return tensors + state;
}

absl::StatusOr<WireBatch> DecodeBatch(const v1::BatchHeader& header,
                                      const Buffer& payload) {
  const int64_t state = header.producer_state_bytes();
  if (state < 0 || state > payload.size()) {
    return InvalidArgument(
        kBatchMalformed,
        absl::StrCat("payload has ", payload.size(),
                     " bytes; producer_state alone has ", state));
  }
  WireBatch batch;
  batch.producer_state.resize(static_cast<size_t>(state));
  payload.Slice(0, state).CopyTo(batch.producer_state.data());
  CF_ASSIGN_OR_RETURN(
      std::vector<NamedTensor> tensors,
      DecodeTensors(header.tensors(),
                    payload.Slice(state, payload.size() - state)));
  std::vector<int> axes;
  for (const v1::TensorSpec& spec : header.tensors()) {
    axes.push_back(spec.sequence_axis());
  }
  CF_ASSIGN_OR_RETURN(batch.batch, BatchFromTensors(std::move(tensors), axes));
  return batch;
}

absl::StatusOr<WireBatch> DecodeSmallBatch(const v1::PutBatchRequest& request) {
  if (request.rows().empty() == request.tensors().empty()) {
    return InvalidArgument(kBatchMalformed,
                           "batch needs either rows or tensors");
  }
  if (static_cast<int64_t>(request.producer_state().size()) >
      kMaxProducerStateBytes) {
    return InvalidArgument(
        kBatchMalformed,
        absl::StrCat("producer_state has ", request.producer_state().size(),
                     " bytes; must be at most ", kMaxProducerStateBytes));
  }
  WireBatch batch{.producer_state = request.producer_state()};
  if (!request.rows().empty()) {
    CF_ASSIGN_OR_RETURN(batch.batch, BatchFromRows(request));
    return batch;
  }
  std::vector<NamedTensor> tensors;
  std::vector<int> axes;
  for (const v1::Tensor& proto : request.tensors()) {
    CF_ASSIGN_OR_RETURN(NamedTensor tensor, TensorFromProto(proto));
    tensors.push_back(std::move(tensor));
    axes.push_back(proto.spec().sequence_axis());
  }
  CF_ASSIGN_OR_RETURN(batch.batch, BatchFromTensors(std::move(tensors), axes));
  return batch;
}

EncodedBatch EncodeBatch(const PackedBatch& batch,
                         const std::string& producer_state) {
  EncodedBatch encoded;
  encoded.header.set_producer_state_bytes(
      static_cast<int32_t>(producer_state.size()));
  encoded.payload = Buffer::CopyOf(producer_state.data(),
                                   static_cast<int64_t>(producer_state.size()));
  TensorSpecs& specs = *encoded.header.mutable_tensors();
  EncodeLengths(batch, encoded);
  const auto add = [&](absl::string_view name, const Tensor& tensor, int axis) {
    if (!tensor.empty()) {
      EncodeTensor(name, tensor, axis, specs, encoded.payload);
    }
  };
  add("input_ids", batch.input_ids, 0);
  add("labels", batch.labels, 0);
  add("position_ids", batch.position_ids, 0);
  add("attention_mask", batch.attention_mask, 0);
  add("padding_mask", batch.padding_mask, 0);
  for (const TokenTensor& extra : batch.extras) {
    add(extra.name, extra.tensor, extra.sequence_axis);
  }
  return encoded;
}

}  // namespace cpfeed
