// What attention over some ranks gave for a case.

#ifndef CPFEED_CLIENT_WORKER_ATTEND_RESULT_H_
#define CPFEED_CLIENT_WORKER_ATTEND_RESULT_H_

#include <cstdint>
#include <vector>

namespace cpfeed {

// Arrays over the padded stream, as in AttentionCase. Gradients are empty where
// the case has no dout.
struct AttendResult {
  std::vector<double> out;
  std::vector<double> lse;  // [T, num_heads]; -inf where no key is seen.
  std::vector<double> dq;
  std::vector<double> dk;
  std::vector<double> dv;
  // To dense float64 attention on the same numbers, which the dtype has
  // rounded; over all arrays. Infinite where only one has a NaN.
  double max_difference = 0;
  // By rank: in the forward pass, without lse; what brought lse home; in the
  // backward pass.
  std::vector<int64_t> bytes_received;
  std::vector<int64_t> lse_bytes_received;
  std::vector<int64_t> backward_bytes_received;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_ATTEND_RESULT_H_
