#include "client/cli/nested_tensor.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tensor/buffer.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace cpfeed {
namespace {

// Deeper nesting is no tensor of ours, and would deepen the recursion.
constexpr int kMaxRank = 8;

absl::Status Malformed(absl::string_view path, absl::string_view what) {
  return InvalidArgument(kBatchMalformed, absl::StrCat(path, " ", what));
}

// What the leaves of nested lists are, as far as they have been seen.
enum class Kind { kUnknown, kBool, kInteger, kFloat };

Kind KindOf(const Json& value) {
  if (value.is_boolean()) return Kind::kBool;
  if (value.is_number_float()) return Kind::kFloat;
  return value.is_number_integer() ? Kind::kInteger : Kind::kUnknown;
}

absl::string_view KindName(Kind kind) {
  return kind == Kind::kBool ? "a bool" : "a number";
}

// Nested lists read leaf by leaf.
class NestedReader {
 public:
  explicit NestedReader(absl::string_view name) : name_(name) {}

  absl::Status Read(const Json& value) {
    const size_t depth = place_.size();
    if (!value.is_array()) return ReadLeaf(value);
    if (kind_ != Kind::kUnknown && depth >= shape_.size()) {
      return Wrong("a list", KindName(kind_));
    }
    if (depth >= kMaxRank) {
      return Malformed(Place(), absl::StrCat("is nested deeper than ", kMaxRank,
                                             " lists; must not be"));
    }
    const int64_t size = static_cast<int64_t>(value.size());
    if (depth == shape_.size()) shape_.push_back(size);
    if (shape_[depth] != size) {
      return InvalidArgument(
          kShapeMismatch,
          absl::StrCat(Place(), " has ", size, " elements; must have ",
                       shape_[depth], ", as the lists before it"));
    }
    place_.push_back(0);
    for (const Json& element : value) {
      CF_RETURN_IF_ERROR(Read(element));
      ++place_.back();
    }
    place_.pop_back();
    return absl::OkStatus();
  }

  Tensor Finish() && {
    if (kind_ == Kind::kFloat) {
      return Tensor::FromVector(std::move(shape_), std::move(floats_));
    }
    if (kind_ != Kind::kBool) {
      return Tensor::FromVector(std::move(shape_), std::move(integers_));
    }
    std::vector<uint8_t> bools(integers_.begin(), integers_.end());
    return Tensor{.dtype = DType::kBool,
                  .shape = std::move(shape_),
                  .bytes = Buffer::FromVector(std::move(bools))};
  }

 private:
  absl::Status ReadLeaf(const Json& value) {
    if (place_.size() < shape_.size()) {
      return Wrong(value.type_name(), "a list");
    }
    const Kind kind = KindOf(value);
    if (kind == Kind::kUnknown) {
      return Wrong(value.type_name(), "a number or a bool");
    }
    if (kind_ == Kind::kUnknown) kind_ = kind;
    if ((kind == Kind::kBool) != (kind_ == Kind::kBool)) {
      return Wrong(KindName(kind), KindName(kind_));
    }
    if (kind == Kind::kFloat) kind_ = kind;
    const std::optional<int64_t> integer = ExactInteger(value);
    if (kind == Kind::kInteger && !integer) {
      return Malformed(Place(), "is above 2^63 - 1; must fit int64");
    }
    integers_.push_back(integer.value_or(0));
    floats_.push_back(kind == Kind::kBool ? 0 : value.get<float>());
    return absl::OkStatus();
  }

  absl::Status Wrong(absl::string_view found, absl::string_view wanted) const {
    return Malformed(Place(), absl::StrCat("is ", found, "; must be ", wanted,
                                           ", as the elements before it"));
  }

  // "input_ids[1][0]".
  std::string Place() const {
    std::string place(name_);
    for (const int64_t index : place_) absl::StrAppend(&place, "[", index, "]");
    return place;
  }

  const absl::string_view name_;
  std::vector<int64_t> place_;  // Indices of the lists that are being read.
  Kind kind_ = Kind::kUnknown;  // Of the leaves until now.
  Shape shape_;
  std::vector<int64_t> integers_;  // Both have every leaf: a later one may
  std::vector<float> floats_;      // turn all of them into floats.
};

}  // namespace

absl::StatusOr<Tensor> ReadNestedTensor(const Json& value,
                                        absl::string_view name) {
  if (!value.is_array()) {
    return Malformed(
        name, absl::StrCat("is ", value.type_name(), "; must be nested lists"));
  }
  NestedReader reader(name);
  CF_RETURN_IF_ERROR(reader.Read(value));
  return std::move(reader).Finish();
}

}  // namespace cpfeed
