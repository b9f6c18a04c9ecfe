#include "core/wire/batch_codec.h"

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/tensor.h"
#include "core/wire/batch_lengths.h"
#include "core/wire/tensor_codec.h"

namespace cpfeed {
namespace {

// Where a tensor of this name goes; null where it is an extra.
Tensor* Place(absl::string_view name, PackedBatch& batch) {
  if (name == "input_ids") return &batch.input_ids;
  if (name == "labels") return &batch.labels;
  if (name == "position_ids") return &batch.position_ids;
  if (name == "attention_mask") return &batch.attention_mask;
  if (name == "padding_mask") return &batch.padding_mask;
  return nullptr;
}

// `axes` are the sequence axes of the tensors, 0 for the default.
absl::StatusOr<PackedBatch> BatchFromTensors(std::vector<NamedTensor> tensors,
                                             const std::vector<int>& axes) {
  PackedBatch batch;
  CF_RETURN_IF_ERROR(TakeLengths(tensors, batch));
  for (size_t i = 0; i < tensors.size(); ++i) {
    NamedTensor& named = tensors[i];
    if (IsLengthTensor(named.name)) continue;
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

// The lengths that the rows give, nothing where none does. A row that gives
// none is of `otherwise(row)`.
template <class Otherwise>
std::optional<RaggedLengths> RowsToLengths(const v1::PutBatchRequest& request,
                                           RowField field,
                                           Otherwise otherwise) {
  RaggedLengths lengths{.row_splits = {0}};
  bool given = false;
  for (const v1::BatchRow& row : request.rows()) {
    const auto& own = (row.*field)();
    const auto& values = own.empty() ? otherwise(row) : own;
    given |= !own.empty();
    lengths.values.insert(lengths.values.end(), values.begin(), values.end());
    lengths.row_splits.push_back(static_cast<int64_t>(lengths.values.size()));
  }
  if (!given) return std::nullopt;
  return lengths;
}

void TakeRowLengths(const v1::PutBatchRequest& request, PackedBatch& batch) {
  using Lengths = google::protobuf::RepeatedField<int64_t>;
  const auto whole_row = [](const v1::BatchRow& row) {
    const int64_t width = row.input_ids_size();
    return Lengths(&width, &width + 1);
  };
  const auto real = [&](const v1::BatchRow& row) {
    return row.seq_lens().empty() ? whole_row(row) : row.seq_lens();
  };
  batch.seq_lens = RowsToLengths(request, &v1::BatchRow::seq_lens, whole_row);
  batch.seq_lens_padded =
      RowsToLengths(request, &v1::BatchRow::seq_lens_padded, real);
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
  TakeRowLengths(request, batch);
  if (batch.input_ids.empty()) {
    return InvalidArgument(kBatchMalformed, "batch has no input_ids");
  }
  return batch;
}

absl::Status CheckBatchId(const std::string& batch_id) {
  const auto bytes = static_cast<int64_t>(batch_id.size());
  if (bytes <= kMaxBatchIdBytes) return absl::OkStatus();
  return InvalidArgument(
      kBatchMalformed,
      absl::StrCat("batch_id has ", bytes, " bytes; must be at most ",
                   kMaxBatchIdBytes));
}

}  // namespace

absl::StatusOr<int64_t> CheckBatchHeader(const v1::BatchHeader& header,
                                         int64_t max_batch_bytes) {
  if (header.sequence() < 0) {
    return InvalidArgument(kBatchMalformed,
                           absl::StrCat("sequence is ", header.sequence(),
                                        "; must not be negative"));
  }
  CF_RETURN_IF_ERROR(CheckBatchId(header.batch_id()));
  const int64_t state = header.producer_state_bytes();
  if (state < 0 || state > kMaxProducerStateBytes) {
    return InvalidArgument(
        kBatchMalformed,
        absl::StrCat("producer_state has ", state, " bytes; must be 0 to ",
                     kMaxProducerStateBytes));
  }
  CF_ASSIGN_OR_RETURN(const int64_t tensors,
                      CheckTensorSpecs(header.tensors()));
  const std::optional<int64_t> bytes = CheckedAdd(tensors, state);
  if (!bytes || *bytes > max_batch_bytes) {
    return InvalidArgument(
        kBatchTooLarge,
        absl::StrCat(
            "batch has ", bytes ? absl::StrCat(*bytes) : "2^63",
            " bytes; must be at most ", max_batch_bytes,
            bytes && *bytes <= INT32_MAX ? "" : " (and is above 2 GiB)",
            "; see limits.max_batch_bytes of the session"));
  }
  return *bytes;
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
  CF_RETURN_IF_ERROR(CheckBatchId(request.batch_id()));
  WireBatch batch{.producer_state = request.producer_state()};
  if (!request.rows().empty()) {
    CF_ASSIGN_OR_RETURN(batch.batch, BatchFromRows(request));
    return batch;
  }
  TensorSpecs specs;
  for (const v1::Tensor& proto : request.tensors()) *specs.Add() = proto.spec();
  CF_RETURN_IF_ERROR(CheckTensorSpecs(specs).status());
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
  EncodeLengths(batch, specs, encoded.payload);
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
