#include "client/worker/attention_case.h"

#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

absl::Status Malformed(absl::string_view name, absl::string_view rule) {
  return InvalidArgument(kBatchMalformed,
                         absl::StrCat(name, " is no ", rule, "; must be one"));
}

// An array [rows, heads, columns].
struct Array {
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t columns = 0;
  std::vector<double> values;
};

// Appends the numbers of `list`, of which there must be `size`; -1 takes any
// number and becomes it.
absl::Status ReadNumbers(const Json& list, absl::string_view name,
                         int64_t& size, std::vector<double>& values) {
  if (!list.is_array()) return Malformed(name, "list of numbers");
  const int64_t count = static_cast<int64_t>(list.size());
  if (size < 0) size = count;
  if (count != size) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(name, " has ", count, " elements; must have ", size));
  }
  for (const Json& number : list) {
    if (!number.is_number()) return Malformed(name, "list of numbers");
    values.push_back(number.get<double>());
  }
  return absl::OkStatus();
}

absl::StatusOr<Array> ReadArray(const Json& json, const std::string& name) {
  if (!json.contains(name) || !json[name].is_array() || json[name].empty()) {
    return Malformed(name, "list [T][heads][columns] with a token at least");
  }
  Array array{.heads = -1, .columns = -1};
  for (const Json& row : json[name]) {
    const std::string place = absl::StrCat(name, "[", array.rows++, "]");
    if (!row.is_array()) return Malformed(place, "list [heads][columns]");
    const int64_t heads = static_cast<int64_t>(row.size());
    if (array.heads < 0) array.heads = heads;
    if (heads != array.heads) {
      return InvalidArgument(kShapeMismatch,
                             absl::StrCat(place, " has ", heads,
                                          " heads; must have ", array.heads));
    }
    for (size_t head = 0; head < row.size(); ++head) {
      CF_RETURN_IF_ERROR(ReadNumbers(row[head],
                                     absl::StrCat(place, "[", head, "]"),
                                     array.columns, array.values));
    }
  }
  if (array.values.empty()) return Malformed(name, "list with numbers in it");
  return array;
}

absl::Status CheckAxis(absl::string_view name, absl::string_view axis,
                       int64_t is, absl::string_view must_name, int64_t must) {
  if (is == must) return absl::OkStatus();
  return InvalidArgument(
      kShapeMismatch, absl::StrCat(name, " has ", is, " ", axis, "; must have ",
                                   must_name, " ", must));
}

absl::Status ReadArrays(const Json& json, AttentionCase& result) {
  CF_ASSIGN_OR_RETURN(Array q, ReadArray(json, "q"));
  CF_ASSIGN_OR_RETURN(Array k, ReadArray(json, "k"));
  CF_ASSIGN_OR_RETURN(Array v, ReadArray(json, "v"));
  CF_RETURN_IF_ERROR(CheckAxis("k", "tokens", k.rows, "q's", q.rows));
  CF_RETURN_IF_ERROR(CheckAxis("v", "tokens", v.rows, "q's", q.rows));
  CF_RETURN_IF_ERROR(CheckAxis("k", "columns", k.columns, "q's", q.columns));
  CF_RETURN_IF_ERROR(CheckAxis("v", "heads", v.heads, "k's", k.heads));
  if (q.heads % k.heads != 0) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("q has ", q.heads, " heads; must be a multiple of k's ",
                     k.heads));
  }
  result.num_heads = q.heads;
  result.num_kv_heads = k.heads;
  result.head_dim = q.columns;
  result.value_dim = v.columns;
  if (json.contains("dout") && !json["dout"].is_null()) {
    CF_ASSIGN_OR_RETURN(Array dout, ReadArray(json, "dout"));
    CF_RETURN_IF_ERROR(CheckAxis("dout", "tokens", dout.rows, "q's", q.rows));
    CF_RETURN_IF_ERROR(CheckAxis("dout", "heads", dout.heads, "q's", q.heads));
    CF_RETURN_IF_ERROR(
        CheckAxis("dout", "columns", dout.columns, "v's", v.columns));
    result.dout = std::move(dout.values);
  }
  result.q = std::move(q.values);
  result.k = std::move(k.values);
  result.v = std::move(v.values);
  return absl::OkStatus();
}

// Lengths, row by row.
using Rows = std::vector<std::vector<int64_t>>;

absl::StatusOr<Rows> ReadLengths(const Json& list, const std::string& name) {
  if (!list.is_array()) return Malformed(name, "list of lengths");
  const bool by_row = !list.empty() && list[0].is_array();
  Rows rows(by_row ? 0 : 1);
  for (const Json& item : by_row ? list : Json::array({list})) {
    if (!item.is_array()) return Malformed(name, "list of lists of lengths");
    if (by_row) rows.emplace_back();
    for (const Json& number : item) {
      const auto length = ExactInteger(number);
      if (!length) return Malformed(name, "list of integers");
      rows.back().push_back(*length);
    }
  }
  return rows;
}

absl::Status ReadLengths(const Json& json, AttentionCase& result) {
  const int64_t tokens = result.num_rows();
  const auto has = [&](const char* key) {
    return json.contains(key) && !json[key].is_null();
  };
  result.has_lengths = has("seq_lens");
  Rows real = {{tokens}};
  if (result.has_lengths) {
    CF_ASSIGN_OR_RETURN(real, ReadLengths(json["seq_lens"], "seq_lens"));
  }
  Rows padded = real;
  if (has("seq_lens_padded")) {
    CF_ASSIGN_OR_RETURN(
        padded, ReadLengths(json["seq_lens_padded"], "seq_lens_padded"));
  }
  PackedLengths& lengths = result.lengths;
  lengths.row_splits = {0};
  for (const auto& row : real) {
    lengths.real.insert(lengths.real.end(), row.begin(), row.end());
    lengths.row_splits.push_back(lengths.num_sequences());
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
  int64_t sum = 0;
  for (const int64_t slot : lengths.padded) {
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
      absl::StrCat("slots do not sum to the ", tokens, " tokens of q"));
}

absl::StatusOr<int64_t> IntegerOr(const Json& json, const char* key,
                                  int64_t otherwise) {
  if (!json.contains(key) || json[key].is_null()) return otherwise;
  const auto value = ExactInteger(json[key]);
  if (!value) return Malformed(key, "integer");
  return *value;
}

absl::Status ReadMask(const Json& json, AttentionCase& result) {
  std::string kind = "causal";
  if (json.contains("kind")) {
    kind = json["kind"].is_string() ? json["kind"].get<std::string>()
                                    : json["kind"].dump();
  }
  if (kind == "causal") {
    result.mask = AttentionMask::Causal();
  } else if (kind == "full") {
    result.mask = AttentionMask::Full();
  } else if (kind == "window") {
    if (!json.contains("window_left")) {
      return InvalidArgument(kBadOption,
                             "window_left is missing; must be given for kind "
                             "window");
    }
    CF_ASSIGN_OR_RETURN(result.mask.left, IntegerOr(json, "window_left", -1));
    CF_ASSIGN_OR_RETURN(result.mask.right, IntegerOr(json, "window_right", 0));
  } else {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("kind is ", kind, "; must be causal, full or window"));
  }
  return ValidateMask(result.mask);
}

}  // namespace

absl::StatusOr<AttentionCase> AttentionCaseFromJson(const Json& json) {
  if (!json.is_object()) return Malformed("the input", "object");
  AttentionCase result;
  CF_RETURN_IF_ERROR(ReadArrays(json, result));
  CF_RETURN_IF_ERROR(ReadLengths(json, result));
  CF_RETURN_IF_ERROR(ReadMask(json, result));
  result.scale = 1 / std::sqrt(static_cast<double>(result.head_dim));
  if (json.contains("scale") && !json["scale"].is_null()) {
    if (!json["scale"].is_number()) return Malformed("scale", "number");
    result.scale = json["scale"].get<double>();
  }
  return result;
}

}  // namespace cpfeed
