#include "tests/testing/golden.h"

#include <fstream>
#include <utility>
#include <variant>

#include "client/cli/json_values.h"
#include "client/cli/tensor_json.h"
#include "core/base/status_macros.h"

namespace cpfeed::testing {
namespace {

using nlohmann::json;

RaggedLengths RowsOf(const Tensor& lengths) {
  RaggedLengths rows{.values = *lengths.ToInt64(), .row_splits = {0}};
  for (int64_t row = 1; row <= lengths.shape[0]; ++row) {
    rows.row_splits.push_back(row * lengths.shape[1]);
  }
  return rows;
}

}  // namespace

std::vector<json> GoldenCases(const std::string& file) {
  std::ifstream stream("tests/testdata/" + file);
  CF_CHECK(stream.good());
  const json document = json::parse(stream);
  const json& list = document.is_array() ? document : document["cases"];
  CF_CHECK(!list.empty());
  return std::vector<json>(list.begin(), list.end());
}

std::string GoldenId(const ::testing::TestParamInfo<json>& info) {
  return info.param["id"].get<std::string>();
}

bool HasTag(const json& golden_case, const std::string& tag) {
  for (const json& has : golden_case["tags"]) {
    if (has == tag) return true;
  }
  return false;
}

Tensor TensorOf(const json& flat) {
  auto tensor = TensorFromJson(Json(flat), "golden");
  CF_CHECK(tensor.ok());
  return *std::move(tensor);
}

ParityDict DictOf(const json& in) {
  ParityDict dict;
  for (const auto& [key, value] : in.items()) {
    if (IsFlatTensor(Json(value))) {
      dict.Set(key, TensorOf(value));
    } else {
      dict.Set(key, PlainValue{value.dump()});
    }
  }
  return dict;
}

json JsonOf(const ParityDict& dict) {
  json object = json::object();
  for (const auto& [key, value] : dict.entries()) {
    if (const Tensor* const tensor = std::get_if<Tensor>(&value)) {
      object[key] = json(FlatJson(*tensor));
    } else {
      object[key] = json::parse(std::get<PlainValue>(value).json);
    }
  }
  return object;
}

PackedBatch NativeBatchOf(const json& in) {
  PackedBatch batch;
  for (const auto& [key, value] : in.items()) {
    if (!IsFlatTensor(Json(value))) continue;
    Tensor tensor = TensorOf(value);
    if (key == "seq_lens") {
      batch.seq_lens = RowsOf(tensor);
    } else if (key == "seq_lens_padded") {
      batch.seq_lens_padded = RowsOf(tensor);
    } else if (key == "input_ids") {
      batch.input_ids = std::move(tensor);
    } else if (key == "labels") {
      batch.labels = std::move(tensor);
    } else if (key == "position_ids") {
      batch.position_ids = std::move(tensor);
    } else if (key == "attention_mask") {
      batch.attention_mask = std::move(tensor);
    } else {
      batch.extras.push_back({.name = key, .tensor = std::move(tensor)});
    }
  }
  return batch;
}

}  // namespace cpfeed::testing
