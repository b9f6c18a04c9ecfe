#include "client/cli/parity_json.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/cli/batch_json.h"
#include "client/cli/tensor_json.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_batch.h"
#include "core/batch/token_shape.h"
#include "core/tensor/tensor.h"

namespace cpfeed {
namespace {

absl::StatusOr<Tensor> Rectangular(const RaggedLengths& lengths,
                                   int64_t filler) {
  const auto& splits = lengths.row_splits;
  const int64_t rows = static_cast<int64_t>(splits.size()) - 1;
  int64_t width = 0;
  for (int64_t row = 0; row < rows; ++row) {
    width = std::max(width, splits[row + 1] - splits[row]);
  }
  if (width * rows >= kMaxTokens) {
    return InvalidArgument(kBatchTooLarge,
                           absl::StrCat("lengths of ", rows, " rows of up to ",
                                        width, "; must be fewer than 2^31"));
  }
  std::vector<int64_t> values;
  values.reserve(rows * width);
  for (int64_t row = 0; row < rows; ++row) {
    values.insert(values.end(), lengths.values.begin() + splits[row],
                  lengths.values.begin() + splits[row + 1]);
    values.resize((row + 1) * width, filler);
  }
  return Tensor::FromVector({rows, width}, std::move(values));
}

absl::StatusOr<ParityValue> ValueFromJson(const std::string& key,
                                          const Json& value, int64_t filler) {
  if (IsFlatTensor(value)) return TensorFromJson(value, key);
  if (!IsNestedTensor(value)) return PlainValue{value.dump()};
  if (key == "seq_lens" || key == "seq_lens_padded") {
    CF_ASSIGN_OR_RETURN(const RaggedLengths lengths,
                        RaggedLengthsFromJson(value, key));
    return Rectangular(lengths, filler);
  }
  return TensorFromJson(value, key);
}

Json ValueJson(const ParityValue& value) {
  if (const Tensor* const tensor = std::get_if<Tensor>(&value)) {
    return FlatJson(*tensor);
  }
  return Json::parse(std::get<PlainValue>(value).json);
}

}  // namespace

absl::StatusOr<ParityDict> ParityDictFromJson(const Json& value,
                                              int64_t filler) {
  if (!value.is_object()) {
    return InvalidArgument(kBatchMalformed,
                           absl::StrCat("input is ", value.type_name(),
                                        "; must be an object of lists"));
  }
  ParityDict dict;
  for (const auto& [key, field] : value.items()) {
    CF_ASSIGN_OR_RETURN(ParityValue parsed, ValueFromJson(key, field, filler));
    dict.Set(key, std::move(parsed));
  }
  return dict;
}

Json ParityJson(Parity parity, const std::vector<ParityShard>& ranks) {
  Json list = Json::array();
  for (const ParityShard& shard : ranks) {
    Json rank = Json::object();
    for (const auto& [key, value] : shard.batch.entries()) {
      rank[key] = ValueJson(value);
    }
    if (shard.local_indices) {
      rank["local_indices"] = FlatJson(*shard.local_indices);
    }
    list.push_back(std::move(rank));
  }
  Json result;
  result["status"] = "OK";
  result["parity"] = std::string(ParityName(parity));
  result["ranks"] = std::move(list);
  return result;
}

}  // namespace cpfeed
