#include "client/worker/number_array.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

// Appends the numbers below `list`. Of `array.shape` what is -1 is not known
// yet.
absl::Status Append(const Json& list, const std::string& place, size_t axis,
                    NumberArray& array) {
  const bool last = axis + 1 == array.shape.size();
  if (!list.is_array()) {
    return NoSuchValue(place, last ? "list of numbers" : "list of lists");
  }
  int64_t& size = array.shape[axis];
  const int64_t count = static_cast<int64_t>(list.size());
  if (size < 0) size = count;
  if (count != size) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(place, " has ", count, " elements; must have ", size));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (!last) {
      CF_RETURN_IF_ERROR(
          Append(list[i], absl::StrCat(place, "[", i, "]"), axis + 1, array));
    } else if (list[i].is_number()) {
      array.values.push_back(list[i].get<double>());
    } else {
      return NoSuchValue(place, "list of numbers");
    }
  }
  return absl::OkStatus();
}

Json Nested(const NumberArray& array, size_t begin, size_t count, size_t axis) {
  if (axis == array.shape.size()) return NumberJson(array.values[begin]);
  Json list = Json::array();
  const size_t size = static_cast<size_t>(array.shape[axis]);
  for (size_t i = 0; i < size; ++i) {
    list.push_back(
        Nested(array, begin + i * (count / size), count / size, axis + 1));
  }
  return list;
}

}  // namespace

absl::StatusOr<NumberArray> ReadNumberArray(const Json& object,
                                            const std::string& name, int axes,
                                            absl::string_view form) {
  const auto malformed = [&] {
    return NoSuchValue(name, absl::StrCat("list ", form, " with a number"));
  };
  if (!object.contains(name) || !object[name].is_array()) return malformed();
  NumberArray array{.shape = std::vector<int64_t>(axes, -1)};
  CF_RETURN_IF_ERROR(Append(object[name], name, 0, array));
  if (array.values.empty()) return malformed();
  return array;
}

absl::Status NoSuchValue(absl::string_view name, absl::string_view rule) {
  return InvalidArgument(kBatchMalformed,
                         absl::StrCat(name, " is no ", rule, "; must be one"));
}

absl::Status CheckCount(absl::string_view name, absl::string_view of,
                        int64_t is, absl::string_view must_name, int64_t must) {
  if (is == must) return absl::OkStatus();
  return InvalidArgument(
      kShapeMismatch, absl::StrCat(name, " has ", is, " ", of, "; must have ",
                                   must_name, " ", must));
}

Json NumberJson(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json NestedJson(const NumberArray& array) {
  return Nested(array, 0, array.values.size(), 0);
}

}  // namespace cpfeed
