// First values of parameters.

#ifndef CPFEED_CLIENT_WORKER_MODEL_INITIALIZER_H_
#define CPFEED_CLIENT_WORKER_MODEL_INITIALIZER_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cpfeed {

// The same seed gives the same numbers in every process.
class Initializer {
 public:
  explicit Initializer(uint64_t seed);

  // The weights of a map, float32 [rows_out, rows_in], normal with a standard
  // deviation of rows_in^-1/2.
  at::Tensor Map(int64_t rows_out, int64_t rows_in);

 private:
  at::Generator generator_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_MODEL_INITIALIZER_H_
