#include "client/worker/attention_case.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/worker/case_lengths.h"
#include "client/worker/number_array.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

absl::StatusOr<NumberArray> ReadArray(const Json& json,
                                      const std::string& name) {
  return ReadNumberArray(json, name, 3, "[T][heads][columns]");
}

absl::Status ReadArrays(const Json& json, AttentionCase& result) {
  CF_ASSIGN_OR_RETURN(NumberArray q, ReadArray(json, "q"));
  CF_ASSIGN_OR_RETURN(NumberArray k, ReadArray(json, "k"));
  CF_ASSIGN_OR_RETURN(NumberArray v, ReadArray(json, "v"));
  const int64_t tokens = q.shape[0];
  CF_RETURN_IF_ERROR(CheckCount("k", "tokens", k.shape[0], "q's", tokens));
  CF_RETURN_IF_ERROR(CheckCount("v", "tokens", v.shape[0], "q's", tokens));
  CF_RETURN_IF_ERROR(CheckCount("k", "columns", k.shape[2], "q's", q.shape[2]));
  CF_RETURN_IF_ERROR(CheckCount("v", "heads", v.shape[1], "k's", k.shape[1]));
  if (q.shape[1] % k.shape[1] != 0) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("q has ", q.shape[1], " heads; must be a multiple of k's ",
                     k.shape[1]));
  }
  result.num_heads = q.shape[1];
  result.num_kv_heads = k.shape[1];
  result.head_dim = q.shape[2];
  result.value_dim = v.shape[2];
  if (json.contains("dout") && !json["dout"].is_null()) {
    CF_ASSIGN_OR_RETURN(NumberArray dout, ReadArray(json, "dout"));
    CF_RETURN_IF_ERROR(
        CheckCount("dout", "tokens", dout.shape[0], "q's", tokens));
    CF_RETURN_IF_ERROR(
        CheckCount("dout", "heads", dout.shape[1], "q's", q.shape[1]));
    CF_RETURN_IF_ERROR(
        CheckCount("dout", "columns", dout.shape[2], "v's", v.shape[2]));
    result.dout = std::move(dout.values);
  }
  result.q = std::move(q.values);
  result.k = std::move(k.values);
  result.v = std::move(v.values);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> IntegerOr(const Json& json, const char* key,
                                  int64_t otherwise) {
  if (!json.contains(key) || json[key].is_null()) return otherwise;
  const auto value = ExactInteger(json[key]);
  if (!value) return NoSuchValue(key, "integer");
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
  if (!json.is_object()) return NoSuchValue("the input", "object");
  AttentionCase result;
  CF_RETURN_IF_ERROR(ReadArrays(json, result));
  CF_ASSIGN_OR_RETURN(CaseLengths lengths,
                      ReadCaseLengths(json, result.num_rows(), "q"));
  result.lengths = std::move(lengths.lengths);
  result.has_lengths = lengths.given;
  CF_RETURN_IF_ERROR(ReadMask(json, result));
  result.scale = 1 / std::sqrt(static_cast<double>(result.head_dim));
  if (json.contains("scale") && !json["scale"].is_null()) {
    if (!json["scale"].is_number()) return NoSuchValue("scale", "number");
    result.scale = json["scale"].get<double>();
  }
  return result;
}

}  // namespace cpfeed
