#include "client/worker/delta_case.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/worker/case_lengths.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

struct Input {
  const char* name;
  int axes;
  const char* form;
  bool has_rows;
};

// The first of each decides how many tokens there are.
constexpr Input kRuleInputs[] = {
    {"q", 3, "[T][Hk][K]", true}, {"k", 3, "[T][Hk][K]", true},
    {"v", 3, "[T][Hv][V]", true}, {"g", 2, "[T][Hv]", true},
    {"beta", 2, "[T][Hv]", true},
};
constexpr Input kConvInputs[] = {
    {"mixed_qkv", 2, "[T][columns]", true},
    {"conv_weight", 2, "[columns][width]", false},
    {"a", 2, "[T][Hv]", true},
    {"b", 2, "[T][Hv]", true},
    {"A_log", 1, "[Hv]", false},
    {"dt_bias", 1, "[Hv]", false},
};

template <size_t n>
absl::Status ReadInputs(const Json& in, const Input (&inputs)[n],
                        DeltaCase& result) {
  for (const Input& input : inputs) {
    CF_ASSIGN_OR_RETURN(
        const NumberArray array,
        ReadNumberArray(in, input.name, input.axes, input.form));
    result.in[input.name] = array;
    if (!input.has_rows) continue;
    CF_RETURN_IF_ERROR(CheckCount(input.name, "tokens", array.shape[0],
                                  absl::StrCat(inputs[0].name, "'s"),
                                  result.num_rows()));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ReadCount(const Json& json, const char* name) {
  constexpr int64_t kMost = 1 << 20;  // Products do not overflow.
  const auto value =
      json.contains(name) ? ExactInteger(json[name]) : std::optional<int64_t>();
  if (value && *value >= 1 && *value <= kMost) return *value;
  return InvalidArgument(
      kBadOption,
      absl::StrCat(name, " is ",
                   json.contains(name) ? json[name].dump() : "missing",
                   "; must be an integer in [1, ", kMost,
                   "], as mixed_qkv does not tell it"));
}

absl::Status ReadHeads(const Json& json, DeltaCase& result) {
  GatedDeltaOptions& options = result.options;
  if (!result.has_conv()) {
    const auto& q = result.in.at("q").shape;
    const auto& v = result.in.at("v").shape;
    options.key_heads = q[1];
    options.key_dim = q[2];
    options.value_heads = v[1];
    options.value_dim = v[2];
    return absl::OkStatus();
  }
  CF_ASSIGN_OR_RETURN(options.key_heads, ReadCount(json, "Hk"));
  CF_ASSIGN_OR_RETURN(options.value_heads, ReadCount(json, "Hv"));
  CF_ASSIGN_OR_RETURN(options.key_dim, ReadCount(json, "K"));
  CF_ASSIGN_OR_RETURN(options.value_dim, ReadCount(json, "V"));
  return absl::OkStatus();
}

absl::Status ReadDout(const Json& json, DeltaCase& result) {
  if (!json.contains("dout") || json["dout"].is_null()) return absl::OkStatus();
  CF_ASSIGN_OR_RETURN(result.dout,
                      ReadNumberArray(json, "dout", 3, "[T][Hv][V]"));
  const auto check = [&](const char* of, size_t axis, int64_t must) {
    return CheckCount("dout", of, result.dout.shape[axis], "the case's", must);
  };
  CF_RETURN_IF_ERROR(check("tokens", 0, result.num_rows()));
  CF_RETURN_IF_ERROR(check("heads", 1, result.options.value_heads));
  return check("columns", 2, result.options.value_dim);
}

absl::Status ReadOptions(const Json& json, GatedDeltaOptions& options) {
  options.scale = 1 / std::sqrt(static_cast<double>(options.key_dim));
  if (json.contains("scale") && !json["scale"].is_null()) {
    if (!json["scale"].is_number()) return NoSuchValue("scale", "number");
    options.scale = json["scale"].get<double>();
  }
  if (json.contains("qk_l2norm")) {
    if (!json["qk_l2norm"].is_boolean()) {
      return NoSuchValue("qk_l2norm", "true or false");
    }
    options.qk_l2norm = json["qk_l2norm"].get<bool>();
  }
  return absl::OkStatus();
}

}  // namespace

bool HasRows(const std::string& name) {
  return name != "conv_weight" && name != "A_log" && name != "dt_bias";
}

absl::StatusOr<DeltaCase> DeltaCaseFromJson(const Json& json) {
  if (!json.is_object() || !json.contains("in") || !json["in"].is_object()) {
    return NoSuchValue("the input", "object with an object \"in\"");
  }
  DeltaCase result;
  const Json& in = json["in"];
  CF_RETURN_IF_ERROR(in.contains("mixed_qkv")
                         ? ReadInputs(in, kConvInputs, result)
                         : ReadInputs(in, kRuleInputs, result));
  CF_RETURN_IF_ERROR(ReadHeads(json, result));
  CF_RETURN_IF_ERROR(ReadOptions(json, result.options));
  CF_RETURN_IF_ERROR(ReadDout(json, result));
  CF_ASSIGN_OR_RETURN(CaseLengths lengths,
                      ReadCaseLengths(json, result.num_rows(),
                                      result.has_conv() ? "mixed_qkv" : "q"));
  result.lengths = std::move(lengths.lengths);
  result.has_lengths = lengths.given;
  return result;
}

}  // namespace cpfeed
