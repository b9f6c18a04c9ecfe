#include "core/attention/rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sin.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

absl::Status Check(const at::Tensor& x, const at::Tensor& positions,
                   const RopeOptions& options) {
  if (x.dim() != 3 || x.size(2) % 2 != 0 ||
      !at::isFloatingType(x.scalar_type())) {
    return InvalidArgument(kShapeMismatch,
                           "x must be [T, heads, D] of floats with an even D");
  }
  if (positions.dim() < 1 || positions.dim() > 2 ||
      positions.size(positions.dim() - 1) != x.size(0) ||
      !at::isIntegralType(positions.scalar_type(), /*includeBool=*/false)) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat("position_ids must be integers of shape [", x.size(0),
                     "] or [n_rope, ", x.size(0), "]"));
  }
  const auto& sections = options.mrope_section;
  const int64_t components = positions.dim() == 2 ? positions.size(0) : 1;
  if (sections.empty() && components == 1) return absl::OkStatus();
  const bool none_negative =
      std::all_of(sections.begin(), sections.end(),
                  [](int64_t section) { return section >= 0; });
  const int64_t sum =
      std::accumulate(sections.begin(), sections.end(), int64_t{0});
  if (static_cast<int64_t>(sections.size()) == components && none_negative &&
      sum == x.size(2) / 2) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kShapeMismatch,
      absl::StrCat(
          "mrope_section is [", absl::StrJoin(sections, ", "), "]; must have ",
          components,
          " numbers of at least 0 that sum to D / 2 = ", x.size(2) / 2));
}

// [T, 1, D / 2] float64.
at::Tensor Angles(const at::Tensor& position_ids, int64_t half,
                  const RopeOptions& options) {
  const at::Tensor positions =
      (position_ids.dim() == 2 ? position_ids : position_ids.unsqueeze(0))
          .to(at::kLong)
          .contiguous();
  const int64_t tokens = positions.size(1);
  const auto* const position = positions.const_data_ptr<int64_t>();
  at::Tensor angles = at::empty({tokens, 1, half}, at::kDouble);
  auto* const angle = angles.mutable_data_ptr<double>();
  std::vector<int64_t> sections = options.mrope_section;
  if (sections.empty()) sections = {half};
  int64_t i = 0;
  for (size_t component = 0; component < sections.size(); ++component) {
    const int64_t end = i + sections[component];
    for (; i < end; ++i) {
      const double frequency =
          std::pow(options.base, -static_cast<double>(i) / half);
      for (int64_t t = 0; t < tokens; ++t) {
        angle[t * half + i] =
            static_cast<double>(position[component * tokens + t]) * frequency;
      }
    }
  }
  return angles;
}

}  // namespace

absl::StatusOr<at::Tensor> ApplyRope(const at::Tensor& x,
                                     const at::Tensor& position_ids,
                                     const RopeOptions& options) {
  CF_RETURN_IF_ERROR(Check(x, position_ids, options));
  const int64_t half = x.size(2) / 2;
  const at::Tensor angles = Angles(position_ids, half, options);
  const at::ScalarType type =
      x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor cos = at::cos(angles).to(type);
  const at::Tensor sin = at::sin(angles).to(type);
  const at::Tensor wide = x.to(type);
  const at::Tensor first = wide.narrow(2, 0, half);
  const at::Tensor second = wide.narrow(2, half, half);
  return at::cat({first * cos - second * sin, second * cos + first * sin}, 2)
      .to(x.scalar_type());
}

}  // namespace cpfeed
