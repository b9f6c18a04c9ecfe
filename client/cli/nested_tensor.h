// Nested lists of numbers as a tensor.

#ifndef CPFEED_CLIENT_CLI_NESTED_TENSOR_H_
#define CPFEED_CLIENT_CLI_NESTED_TENSOR_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/json_values.h"
#include "core/tensor/tensor.h"

namespace cpfeed {

// Bools give bool, numbers one of which has a decimal point or an exponent
// float32, other numbers int64. All lists of one level are equally long.
// `name` stands for `value` in messages: "input_ids[1] has 3 elements; ...".
//
// Errors:
//   INVALID_ARGUMENT  SHAPE_MISMATCH: lists of one level differ in length.
//                     BATCH_MALFORMED: anything but lists of numbers or bools.
absl::StatusOr<Tensor> ReadNestedTensor(const Json& value,
                                        absl::string_view name);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_NESTED_TENSOR_H_
