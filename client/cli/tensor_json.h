// Tensors as JSON: nested lists for people, and the flat form of the parity
// modes.

#ifndef CPFEED_CLIENT_CLI_TENSOR_JSON_H_
#define CPFEED_CLIENT_CLI_TENSOR_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/json_values.h"
#include "core/tensor/tensor.h"

namespace cpfeed {

// Whether `value` is the flat form of a tensor: an object with "dt", "sh" and
// "v".
bool IsFlatTensor(const Json& value);

// Whether `value` is a list of numbers or bools, however deeply nested, or an
// empty list: what TensorFromJson takes for a tensor.
bool IsNestedTensor(const Json& value);

// Reads either form.
//
// Nested lists: bools give bool, numbers one of which has a decimal point or an
// exponent float32, other numbers int64. All lists of one level are equally
// long.
//
// The flat form: {"dt": "i64", "sh": [2, 3], "v": [row-major numbers]}, dt one
// of bool, u8, i8, i16, i32, i64, f32, f64; a scalar has the shape [].
//
// `path` names the value in messages: "input_ids[1] has 3 elements; ...".
//
// Errors:
//   INVALID_ARGUMENT  SHAPE_MISMATCH: lists of one level differ in length, or
//                     the shape does not give the number of values.
//                     BATCH_MALFORMED: anything else that is no tensor.
absl::StatusOr<Tensor> TensorFromJson(const Json& value,
                                      absl::string_view path);

// Nested lists, or a number for a scalar.
Json NestedJson(const Tensor& tensor);

// The flat form; bool is 0 and 1. Also "f16" and "bf16".
Json FlatJson(const Tensor& tensor);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_TENSOR_JSON_H_
