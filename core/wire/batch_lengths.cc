#include "core/wire/batch_lengths.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

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
    lengths.row_splits.resize(tensor.shape[0] + 1);
    for (size_t i = 0; i < lengths.row_splits.size(); ++i) {
      lengths.row_splits[i] = static_cast<int64_t>(i) * tensor.shape[1];
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

// The numbers that `tensor`, which holds lengths, becomes. Rows count: those of
// a [rows, 0] take no bytes and are a mere claim.
int64_t NumLengths(const Tensor& tensor) {
  const int64_t elements = tensor.bytes.size() / ItemSize(tensor.dtype);
  return tensor.shape.size() == 2 ? elements + tensor.shape[0] : elements;
}

// Lengths become 8 bytes each, whatever their dtype. They may not be so many
// that this exceeds what the payload's size stands for; a batch that has a
// token in each row is far from it.
absl::Status CheckLengthCount(const std::vector<NamedTensor>& tensors) {
  constexpr int64_t kBytesPerLength = 4;
  int64_t bytes = 0;
  int64_t lengths = 0;
  for (const NamedTensor& named : tensors) {
    bytes += named.tensor.bytes.size();
    if (!IsLengthTensor(named.name)) continue;
    lengths += std::min(NumLengths(named.tensor), INT64_MAX / 8);
  }
  if (lengths <= bytes / kBytesPerLength) return absl::OkStatus();
  return InvalidArgument(
      kBatchTooLarge, absl::StrCat("batch of ", bytes, " bytes has ", lengths,
                                   " lengths; must be at most one for each ",
                                   kBytesPerLength, " bytes"));
}

// Counts for rows that no tensor needs are a mistake: without the lengths that
// they belong to, each row would be taken for one sequence.
absl::Status CheckCountsAreUsed(const std::vector<NamedTensor>& tensors) {
  bool has_counts = false;
  bool has_list = false;
  for (const NamedTensor& named : tensors) {
    const bool counts =
        named.name == kSequencesPerRow || named.name == kSequencesPerRowPadded;
    has_counts |= counts;
    has_list |=
        IsLengthTensor(named.name) && !counts && named.tensor.shape.size() == 1;
  }
  if (has_list || !has_counts) return absl::OkStatus();
  return InvalidArgument(
      kLengthsInconsistent,
      "sequences_per_row is given; must come with seq_lens [all sequences]");
}

void EncodeInt64(absl::string_view name, std::vector<int64_t> values,
                 TensorSpecs& specs, Buffer& payload) {
  const auto count = static_cast<int64_t>(values.size());
  EncodeTensor(name, Tensor::FromVector<int64_t>({count}, std::move(values)), 0,
               specs, payload);
}

std::vector<int64_t> Counts(const RaggedLengths& lengths) {
  if (lengths.row_splits.empty()) return {};
  std::vector<int64_t> counts(lengths.row_splits.size());
  std::adjacent_difference(lengths.row_splits.begin(), lengths.row_splits.end(),
                           counts.begin());
  counts.erase(counts.begin());
  return counts;
}

}  // namespace

bool IsLengthTensor(absl::string_view name) {
  return name == kSeqLens || name == kSeqLensPadded ||
         name == kSequencesPerRow || name == kSequencesPerRowPadded;
}

absl::Status TakeLengths(const std::vector<NamedTensor>& tensors,
                         PackedBatch& batch) {
  CF_RETURN_IF_ERROR(CheckLengthCount(tensors));
  CF_RETURN_IF_ERROR(CheckCountsAreUsed(tensors));
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

void EncodeLengths(const PackedBatch& batch, TensorSpecs& specs,
                   Buffer& payload) {
  if (batch.seq_lens) {
    EncodeInt64(kSequencesPerRow, Counts(*batch.seq_lens), specs, payload);
    EncodeInt64(kSeqLens, batch.seq_lens->values, specs, payload);
  }
  if (batch.seq_lens_padded) {
    const RaggedLengths& padded = *batch.seq_lens_padded;
    if (!batch.seq_lens || batch.seq_lens->row_splits != padded.row_splits) {
      EncodeInt64(kSequencesPerRowPadded, Counts(padded), specs, payload);
    }
    EncodeInt64(kSeqLensPadded, padded.values, specs, payload);
  }
}

}  // namespace cpfeed
