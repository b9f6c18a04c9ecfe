// Arrays of numbers in cases that people write as JSON.

#ifndef CPFEED_CLIENT_WORKER_NUMBER_ARRAY_H_
#define CPFEED_CLIENT_WORKER_NUMBER_ARRAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/json_values.h"

namespace cpfeed {

// Row-major.
struct NumberArray {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

// The nested lists at `object[name]`, which have `axes` levels and at least one
// number; `form` is how messages call them, "[T][heads]".
//
// Errors:
//   INVALID_ARGUMENT  They are something else (reason BATCH_MALFORMED), or
//                     lists of one level differ in length (SHAPE_MISMATCH); the
//                     message names the place: "k[0][1]".
absl::StatusOr<NumberArray> ReadNumberArray(const Json& object,
                                            const std::string& name, int axes,
                                            absl::string_view form);

// "scale is no number; must be one" (BATCH_MALFORMED).
absl::Status NoSuchValue(absl::string_view name, absl::string_view rule);

// SHAPE_MISMATCH unless `is` equals `must`: "v has 2 tokens; must have q's 4".
absl::Status CheckCount(absl::string_view name, absl::string_view of,
                        int64_t is, absl::string_view must_name, int64_t must);

// The array as nested lists; null for what is not finite.
Json NestedJson(const NumberArray& array);

// A number, or null likewise.
Json NumberJson(double value);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_NUMBER_ARRAY_H_
