#include "client/worker/case_lengths.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/worker/number_array.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// Lengths, row by row.
using Rows = std::vector<std::vector<int64_t>>;

absl::StatusOr<Rows> ReadRows(const Json& list, const std::string& name) {
  if (!list.is_array()) return NoSuchValue(name, "list of lengths");
  const bool by_row = !list.empty() && list[0].is_array();
  Rows rows(by_row ? 0 : 1);
  for (const Json& item : by_row ? list : Json::array({list})) {
    if (!item.is_array()) return NoSuchValue(name, "list of lists of lengths");
    if (by_row) rows.emplace_back();
    for (const Json& number : item) {
      const auto length = ExactInteger(number);
      if (!length) return NoSuchValue(name, "list of integers");
      rows.back().push_back(*length);
    }
  }
  return rows;
}

// Lengths of prefix sums.
absl::StatusOr<Rows> Differences(const Rows& rows, int64_t tokens) {
  const std::vector<int64_t>& sums = rows[0];
  if (rows.size() != 1 || sums.empty() || sums[0] != 0) {
    return InvalidArgument(kLengthsInconsistent,
                           "cu_seqlens must be one list that begins with 0");
  }
  Rows lengths(1);
  for (size_t i = 1; i < sums.size(); ++i) {
    if (sums[i] < sums[i - 1] || sums[i] > tokens) {
      return InvalidArgument(
          kLengthsInconsistent,
          absl::StrCat("cu_seqlens goes from ", sums[i - 1], " to ", sums[i],
                       " at entry ", i, "; must not descend, up to ", tokens));
    }
    lengths[0].push_back(sums[i] - sums[i - 1]);
  }
  return lengths;
}

bool Has(const Json& json, const char* key) {
  return json.contains(key) && !json[key].is_null();
}

absl::StatusOr<Rows> ReadReal(const Json& json, int64_t tokens) {
  if (Has(json, "seq_lens")) return ReadRows(json["seq_lens"], "seq_lens");
  if (!Has(json, "cu_seqlens")) return Rows{{tokens}};
  CF_ASSIGN_OR_RETURN(const Rows sums,
                      ReadRows(json["cu_seqlens"], "cu_seqlens"));
  if (sums.empty()) return NoSuchValue("cu_seqlens", "list of lengths");
  return Differences(sums, tokens);
}

absl::Status CheckSum(const std::vector<int64_t>& slots, int64_t tokens,
                      absl::string_view array) {
  int64_t sum = 0;
  for (const int64_t slot : slots) {
    // No overflow: what is past T is wrong already.
    if (slot < 0 || slot > tokens - sum) {
      sum = -1;
      break;
    }
    sum += slot;
  }
  if (sum == tokens) return absl::OkStatus();
  return InvalidArgument(
      kLengthsInconsistent,
      absl::StrCat("slots do not sum to the ", tokens, " tokens of ", array));
}

}  // namespace

absl::StatusOr<CaseLengths> ReadCaseLengths(const Json& json, int64_t tokens,
                                            absl::string_view array) {
  CaseLengths result{.given = Has(json, "seq_lens") || Has(json, "cu_seqlens")};
  CF_ASSIGN_OR_RETURN(const Rows real, ReadReal(json, tokens));
  Rows padded = real;
  if (Has(json, "seq_lens_padded")) {
    CF_ASSIGN_OR_RETURN(padded,
                        ReadRows(json["seq_lens_padded"], "seq_lens_padded"));
  }
  PackedLengths& lengths = result.lengths;
  lengths.row_splits = {0};
  for (const auto& row : real) {
    lengths.real.insert(lengths.real.end(), row.begin(), row.end());
    lengths.row_splits.push_back(static_cast<int64_t>(lengths.real.size()));
  }
  for (const auto& row : padded) {
    lengths.padded.insert(lengths.padded.end(), row.begin(), row.end());
  }
  if (lengths.padded.size() != lengths.real.size()) {
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat("seq_lens_padded has ", lengths.padded.size(),
                     " entries; must have those of seq_lens, ",
                     lengths.real.size()));
  }
  CF_RETURN_IF_ERROR(CheckSum(lengths.padded, tokens, array));
  return result;
}

}  // namespace cpfeed
