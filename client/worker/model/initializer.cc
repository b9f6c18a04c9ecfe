#include "client/worker/model/initializer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <cmath>

namespace cpfeed {

Initializer::Initializer(uint64_t seed)
    : generator_(at::detail::createCPUGenerator(seed)) {}

at::Tensor Initializer::Map(int64_t rows_out, int64_t rows_in) {
  return at::randn({rows_out, rows_in}, generator_, at::kFloat) /
         std::sqrt(static_cast<double>(rows_in));
}

}  // namespace cpfeed
