#include "core/plan/check_lengths.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout.h"
#include "core/plan/layouts/layout_registry.h"
#include "core/plan/layouts/layout_rule.h"

namespace cpfeed {
namespace {

// Tokens and sequences are counted in int32.
constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

absl::Status Inconsistent(absl::string_view message) {
  return InvalidArgument(kLengthsInconsistent, message);
}

absl::Status CheckRowSplits(const PackedLengths& lengths) {
  const std::vector<int64_t>& splits = lengths.row_splits;
  if (splits.empty() || splits.front() != 0 ||
      splits.back() != lengths.num_sequences()) {
    return Inconsistent(absl::StrCat(
        "row_splits go from ", splits.empty() ? -1 : splits.front(), " to ",
        splits.empty() ? -1 : splits.back(),
        "; must go from 0 to the number of sequences, ",
        lengths.num_sequences()));
  }
  const auto drop = std::is_sorted_until(splits.begin(), splits.end());
  if (drop == splits.end()) return absl::OkStatus();
  return Inconsistent(absl::StrCat("row_splits fall from ", *(drop - 1), " to ",
                                   *drop, " at row ",
                                   drop - splits.begin() - 1));
}

// "row 1: sequence 3" for the sequence's number in the chunk.
std::string PlaceOf(const PackedLengths& lengths, int64_t sequence) {
  const auto next = std::upper_bound(lengths.row_splits.begin(),
                                     lengths.row_splits.end(), sequence);
  return absl::StrCat("row ", next - lengths.row_splits.begin() - 1,
                      ": sequence ", sequence - *(next - 1));
}

absl::Status CheckSequence(const PackedLengths& lengths, int64_t sequence) {
  const int64_t real = lengths.real[sequence];
  const int64_t padded = lengths.padded[sequence];
  if (real < 0) {
    return Inconsistent(absl::StrCat(PlaceOf(lengths, sequence),
                                     ": real length is ", real,
                                     "; must be at least 0"));
  }
  if (real > padded) {
    return Inconsistent(
        absl::StrCat(PlaceOf(lengths, sequence), ": real length is ", real,
                     "; must be at most its padded length, ", padded));
  }
  return absl::OkStatus();
}

// Collects places whose length is not a multiple, the first few by name.
class Offenders {
 public:
  void Add(int64_t row, absl::string_view name, int64_t length) {
    ++count_;
    if (count_ > kNamed) return;
    if (row != row_) absl::StrAppend(&text_, row_ < 0 ? "" : "; ", "row ", row);
    absl::StrAppend(&text_, row != row_ ? ": " : ", ", name, length);
    row_ = row;
  }

  // OK where there are none.
  absl::Status ToStatus(int64_t multiple, absl::string_view formula) const {
    if (count_ == 0) return absl::OkStatus();
    std::string message = text_;
    if (count_ > kNamed) {
      absl::StrAppend(&message, " and ", count_ - kNamed, " more");
    }
    return InvalidArgument(kNotDivisible,
                           absl::StrCat(message,
                                        " padded tokens; each must be a "
                                        "multiple of ",
                                        multiple, " (", formula, ")"));
  }

 private:
  static constexpr int64_t kNamed = 8;

  int64_t count_ = 0;
  int64_t row_ = -1;
  std::string text_;
};

absl::Status CheckSlots(const PackedLengths& lengths, int64_t multiple,
                        absl::string_view formula) {
  Offenders offenders;
  for (int64_t row = 0; row < lengths.num_rows(); ++row) {
    const int64_t first = lengths.row_splits[row];
    for (int64_t s = first; s < lengths.row_splits[row + 1]; ++s) {
      if (lengths.padded[s] % multiple == 0) continue;
      offenders.Add(row, absl::StrCat("sequence ", s - first, ": "),
                    lengths.padded[s]);
    }
  }
  return offenders.ToStatus(multiple, formula);
}

absl::Status CheckRows(const PackedLengths& lengths, int64_t multiple,
                       absl::string_view formula) {
  Offenders offenders;
  for (int64_t row = 0; row < lengths.num_rows(); ++row) {
    const auto slots = lengths.padded.begin();
    const int64_t width =
        std::accumulate(slots + lengths.row_splits[row],
                        slots + lengths.row_splits[row + 1], int64_t{0});
    if (width % multiple != 0) offenders.Add(row, "", width);
  }
  return offenders.ToStatus(multiple, formula);
}

absl::Status CheckChunk(const PackedLengths& lengths, int64_t multiple,
                        absl::string_view formula) {
  const int64_t total =
      std::accumulate(lengths.padded.begin(), lengths.padded.end(), int64_t{0});
  if (total % multiple == 0) return absl::OkStatus();
  return InvalidArgument(kNotDivisible,
                         absl::StrCat("the chunk has ", total,
                                      " padded tokens; must be a multiple of ",
                                      multiple, " (", formula, ")"));
}

}  // namespace

absl::StatusOr<int64_t> CheckLengths(const PackedLengths& lengths) {
  if (lengths.real.size() != lengths.padded.size()) {
    return Inconsistent(
        absl::StrCat(lengths.real.size(), " real and ", lengths.padded.size(),
                     " padded lengths; must be as many of each"));
  }
  if (lengths.num_sequences() >= kMost) {
    return InvalidArgument(kBatchTooLarge,
                           absl::StrCat(lengths.num_sequences(),
                                        " sequences; must be below ", kMost));
  }
  CF_RETURN_IF_ERROR(CheckRowSplits(lengths));
  int64_t total = 0;
  for (int64_t s = 0; s < lengths.num_sequences(); ++s) {
    CF_RETURN_IF_ERROR(CheckSequence(lengths, s));
    if (lengths.padded[s] > kMost - total) {
      return InvalidArgument(
          kBatchTooLarge,
          absl::StrCat(PlaceOf(lengths, s), ": ", lengths.padded[s],
                       " padded tokens behind ", total,
                       " of the chunk; must be at most ", kMost, " in all"));
    }
    total += lengths.padded[s];
  }
  return total;
}

absl::Status CheckDivisible(const PackedLengths& lengths,
                            const LayoutSpec& spec, int64_t cp_size) {
  const PadRule rule = PadRuleOf(spec, cp_size);
  const absl::string_view formula = RuleOf(spec.layout).multiple_formula;
  switch (rule.scope) {
    case PadRule::Scope::kNone:
      return absl::OkStatus();
    case PadRule::Scope::kSlot:
      return CheckSlots(lengths, rule.multiple, formula);
    case PadRule::Scope::kRow:
      return CheckRows(lengths, rule.multiple, formula);
    case PadRule::Scope::kChunk:
      return CheckChunk(lengths, rule.multiple, formula);
  }
  CF_CHECK(false);
}

}  // namespace cpfeed
