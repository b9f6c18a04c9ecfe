#include "core/batch/row_lengths.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

absl::Status CheckSplits(absl::string_view name, const RaggedLengths& lengths,
                         int64_t num_rows) {
  const auto& splits = lengths.row_splits;
  if (static_cast<int64_t>(splits.size()) != num_rows + 1) {
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat(name, " has ", splits.empty() ? 0 : splits.size() - 1,
                     " rows; must have ", num_rows, ", as input_ids"));
  }
  const int64_t num_values = static_cast<int64_t>(lengths.values.size());
  bool valid = splits.front() == 0 && splits.back() == num_values;
  for (int64_t row = 0; valid && row < num_rows; ++row) {
    valid = splits[row] <= splits[row + 1];
  }
  if (!valid) {
    return InvalidArgument(
        kBatchMalformed,
        absl::StrCat("row splits of ", name,
                     " do not ascend from 0 to the number of values, ",
                     num_values, "; must do so"));
  }
  return absl::OkStatus();
}

absl::Span<const int64_t> Row(const RaggedLengths& lengths, int64_t row) {
  const int64_t begin = lengths.row_splits[row];
  return absl::MakeConstSpan(lengths.values)
      .subspan(begin, lengths.row_splits[row + 1] - begin);
}

// The entries of one row before its sentinels.
absl::StatusOr<absl::Span<const int64_t>> StripSentinels(
    absl::string_view name, absl::Span<const int64_t> row, int64_t sentinel) {
  size_t count = 0;
  while (count < row.size() && row[count] != sentinel) {
    if (row[count] < 0) {
      return InvalidArgument(
          kLengthsInconsistent,
          absl::StrCat("sequence ", count, ": ", name, " is ", row[count],
                       "; must be at least 0, or the padding value ",
                       sentinel));
    }
    ++count;
  }
  for (size_t i = count; i < row.size(); ++i) {
    if (row[i] == sentinel) continue;
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat("sequence ", i, ": ", name, " is ", row[i],
                     " behind the padding value ", sentinel, " at ", count,
                     "; the padding value must come last"));
  }
  return row.first(count);
}

absl::Status CheckPairs(absl::Span<const int64_t> real,
                        absl::Span<const int64_t> padded) {
  if (real.size() != padded.size()) {
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat("seq_lens has ", real.size(),
                     " sequences and seq_lens_padded has ", padded.size(),
                     "; must be equally many"));
  }
  for (size_t i = 0; i < real.size(); ++i) {
    if (real[i] <= padded[i]) continue;
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat("sequence ", i, ": real length is ", real[i],
                     "; must be at most the padded length ", padded[i]));
  }
  return absl::OkStatus();
}

// Sum of slots. No slot that is wider than an int64 can matter: the row is
// refused then, whatever the exact sum.
int64_t SaturatedSum(absl::Span<const int64_t> slots) {
  int64_t sum = 0;
  for (const int64_t slot : slots) {
    const std::optional<int64_t> next = CheckedAdd(sum, slot);
    if (!next) return std::numeric_limits<int64_t>::max();
    sum = *next;
  }
  return sum;
}

// Appends one row whose lengths have been checked one by one.
absl::Status AppendRow(absl::Span<const int64_t> real,
                       absl::Span<const int64_t> padded, int64_t row_width,
                       bool auto_fill, PackedLengths& lengths) {
  const int64_t sum = SaturatedSum(padded);
  if (sum > row_width || (sum < row_width && !auto_fill)) {
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat(
            "padded lengths sum to ", sum, "; must be the row width ",
            row_width,
            sum < row_width ? " (auto_fill extends the last slot)" : ""));
  }
  lengths.real.insert(lengths.real.end(), real.begin(), real.end());
  lengths.padded.insert(lengths.padded.end(), padded.begin(), padded.end());
  if (padded.empty()) {
    lengths.real.push_back(0);
    lengths.padded.push_back(0);
  }
  lengths.padded.back() += row_width - sum;
  lengths.row_splits.push_back(lengths.num_sequences());
  return absl::OkStatus();
}

absl::Status ReadRow(const PackedBatch& batch, const BatchOptions& options,
                     int64_t row, int64_t row_width, PackedLengths& lengths) {
  CF_ASSIGN_OR_RETURN(const absl::Span<const int64_t> real,
                      StripSentinels("seq_lens", Row(*batch.seq_lens, row),
                                     options.seq_lens_padding_value));
  absl::Span<const int64_t> padded = real;
  if (batch.seq_lens_padded) {
    CF_ASSIGN_OR_RETURN(padded, StripSentinels("seq_lens_padded",
                                               Row(*batch.seq_lens_padded, row),
                                               options.seq_lens_padding_value));
  }
  CF_RETURN_IF_ERROR(CheckPairs(real, padded));
  return AppendRow(real, padded, row_width, options.auto_fill, lengths);
}

}  // namespace

absl::StatusOr<PackedLengths> ReadRowLengths(const PackedBatch& batch,
                                             const BatchOptions& options,
                                             const TokenShape& shape) {
  CF_CHECK(batch.seq_lens.has_value());
  CF_RETURN_IF_ERROR(CheckSplits("seq_lens", *batch.seq_lens, shape.num_rows));
  if (batch.seq_lens_padded) {
    CF_RETURN_IF_ERROR(
        CheckSplits("seq_lens_padded", *batch.seq_lens_padded, shape.num_rows));
  }
  PackedLengths lengths;
  lengths.row_splits.push_back(0);
  for (int64_t row = 0; row < shape.num_rows; ++row) {
    const absl::Status read =
        ReadRow(batch, options, row, shape.row_width, lengths);
    if (!read.ok()) return Annotate(read, absl::StrCat("row ", row));
  }
  return lengths;
}

}  // namespace cpfeed
