#include "client/cli/tensor_json.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/nested_tensor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"
#include "core/tensor/half.h"
#include "core/tensor/shape.h"

namespace cpfeed {
namespace {

struct FlatName {
  absl::string_view name;
  DType dtype;
};

constexpr FlatName kFlatNames[] = {
    {"bool", DType::kBool},   {"u8", DType::kUint8},
    {"i8", DType::kInt8},     {"i16", DType::kInt16},
    {"i32", DType::kInt32},   {"i64", DType::kInt64},
    {"f16", DType::kFloat16}, {"bf16", DType::kBfloat16},
    {"f32", DType::kFloat32}, {"f64", DType::kFloat64},
};

absl::Status Malformed(absl::string_view path, absl::string_view what) {
  return InvalidArgument(kBatchMalformed, absl::StrCat(path, " ", what));
}

absl::StatusOr<DType> ReadDType(const Json& name, absl::string_view path) {
  for (const FlatName& known : kFlatNames) {
    if (name.is_string() && name.get<std::string>() == known.name) {
      return known.dtype;
    }
  }
  return Malformed(path, absl::StrCat("has dt ", name.dump(),
                                      "; must be a known element type"));
}

absl::StatusOr<Shape> ReadShape(const Json& list, absl::string_view path) {
  Shape shape;
  bool valid = list.is_array();
  for (const Json& size : list) {
    valid = valid && size.is_number_integer() && size.get<int64_t>() >= 0;
    if (valid) shape.push_back(size.get<int64_t>());
  }
  if (!valid) {
    return Malformed(path, "has an sh that is no list of sizes; must be one");
  }
  return shape;
}

// `value` as a T, where T holds it exactly (floats may round).
template <class T>
std::optional<T> ElementFrom(const Json& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (value.is_number()) return value.get<T>();
    return std::nullopt;
  } else {
    const std::optional<int64_t> integer = ExactInteger(value);
    if (!integer || *integer != static_cast<T>(*integer)) return std::nullopt;
    return static_cast<T>(*integer);
  }
}

template <class T>
absl::StatusOr<Tensor> ReadValues(DType dtype, const Shape& shape,
                                  const Json& list, absl::string_view path) {
  std::vector<T> values;
  values.reserve(list.size());
  for (const Json& json : list) {
    const std::optional<T> value = ElementFrom<T>(json);
    if (!value || (dtype == DType::kBool && *value != 0 && *value != 1)) {
      return Malformed(
          absl::StrCat(path, ".v[", values.size(), "]"),
          absl::StrCat("is ", json.dump(), "; must be ", DTypeName(dtype)));
    }
    values.push_back(*value);
  }
  Tensor tensor{.dtype = dtype,
                .shape = shape,
                .bytes = Buffer::FromVector(std::move(values))};
  CF_RETURN_IF_ERROR(ValidateTensor(path, tensor));
  return tensor;
}

absl::StatusOr<Tensor> ReadFlat(const Json& value, absl::string_view path) {
  CF_ASSIGN_OR_RETURN(const DType dtype, ReadDType(value["dt"], path));
  CF_ASSIGN_OR_RETURN(const Shape shape, ReadShape(value["sh"], path));
  const Json& list = value["v"];
  if (!list.is_array()) return Malformed(path, "has a v that is no list");
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return ReadValues<uint8_t>(dtype, shape, list, path);
    case DType::kInt8:
      return ReadValues<int8_t>(dtype, shape, list, path);
    case DType::kInt16:
      return ReadValues<int16_t>(dtype, shape, list, path);
    case DType::kInt32:
      return ReadValues<int32_t>(dtype, shape, list, path);
    case DType::kInt64:
      return ReadValues<int64_t>(dtype, shape, list, path);
    case DType::kFloat32:
      return ReadValues<float>(dtype, shape, list, path);
    case DType::kFloat64:
      return ReadValues<double>(dtype, shape, list, path);
    default:
      return Malformed(path, "is of 16-bit floats; must be f32 or f64");
  }
}

template <class T>
T Load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

Json ElementJson(DType dtype, const std::byte* data) {
  switch (dtype) {
    case DType::kBool:
      return Load<uint8_t>(data) != 0;
    case DType::kUint8:
      return Load<uint8_t>(data);
    case DType::kInt8:
      return Load<int8_t>(data);
    case DType::kInt16:
      return Load<int16_t>(data);
    case DType::kInt32:
      return Load<int32_t>(data);
    case DType::kInt64:
      return Load<int64_t>(data);
    case DType::kFloat16:
      return Float16ToFloat(Load<uint16_t>(data));
    case DType::kBfloat16:
      return Bfloat16ToFloat(Load<uint16_t>(data));
    case DType::kFloat32:
      return Load<float>(data);
    default:
      return Load<double>(data);
  }
}

// Lists of axis `axis` and behind; moves `data` on over what it has written.
Json NestedFrom(const Tensor& tensor, size_t axis, const std::byte*& data) {
  if (axis == tensor.shape.size()) {
    const std::byte* const element = data;
    data += ItemSize(tensor.dtype);
    return ElementJson(tensor.dtype, element);
  }
  Json::array_t list;
  list.reserve(tensor.shape[axis]);
  for (int64_t i = 0; i < tensor.shape[axis]; ++i) {
    list.push_back(NestedFrom(tensor, axis + 1, data));
  }
  return list;
}

}  // namespace

bool IsFlatTensor(const Json& value) {
  return value.is_object() && value.contains("dt") && value.contains("sh") &&
         value.contains("v");
}

bool IsNestedTensor(const Json& value) {
  const Json* first = &value;
  while (first->is_array() && !first->empty()) first = &first->front();
  return value.is_array() && (first->is_array() || first->is_number() ||
                              first->is_boolean() || first->is_null());
}

absl::StatusOr<Tensor> TensorFromJson(const Json& value,
                                      absl::string_view path) {
  if (IsFlatTensor(value)) return ReadFlat(value, path);
  return ReadNestedTensor(value, path);
}

Json NestedJson(const Tensor& tensor) {
  const Buffer whole = tensor.bytes.Contiguous();
  const std::byte* data = whole.data();
  return NestedFrom(tensor, 0, data);
}

Json FlatJson(const Tensor& tensor) {
  const Buffer whole = tensor.bytes.Contiguous();
  const int64_t item_size = ItemSize(tensor.dtype);
  Json::array_t values;
  values.reserve(whole.size() / item_size);
  for (int64_t at = 0; at < whole.size(); at += item_size) {
    Json value = ElementJson(tensor.dtype, whole.data() + at);
    values.push_back(value.is_boolean() ? Json(int{value.get<bool>()}) : value);
  }
  Json flat;
  for (const FlatName& known : kFlatNames) {
    if (known.dtype == tensor.dtype) flat["dt"] = std::string(known.name);
  }
  flat["sh"] = std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end());
  flat["v"] = std::move(values);
  return flat;
}

}  // namespace cpfeed
