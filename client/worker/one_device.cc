#include "client/worker/one_device.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/attention/dense_reference.h"

namespace cpfeed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Rows [begin, begin + count) of a stream with rows of `width`.
std::vector<double> RowsOf(const std::vector<double>& stream, int64_t begin,
                           int64_t count, int64_t width) {
  const auto first = stream.begin() + begin * width;
  return std::vector<double>(first, first + count * width);
}

void PutRows(const std::vector<double>& rows, int64_t begin, int64_t width,
             std::vector<double>& stream) {
  std::copy(rows.begin(), rows.end(), stream.begin() + begin * width);
}

double MaxDifference(const std::vector<double>& a,
                     const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(a[i] - b[i]);
    most = std::isnan(difference) ? kInfinity : std::max(most, difference);
  }
  return most;
}

}  // namespace

AttendResult EmptyResult(const AttentionCase& input) {
  const int64_t rows = input.num_rows();
  AttendResult result;
  result.out.resize(rows * input.num_heads * input.value_dim);
  result.lse.assign(rows * input.num_heads, -kInfinity);
  if (input.dout.empty()) return result;
  result.dq.resize(input.q.size());
  result.dk.resize(input.k.size());
  result.dv.resize(input.v.size());
  return result;
}

AttendResult OneDeviceResult(const AttentionCase& input) {
  AttendResult result = EmptyResult(input);
  const int64_t q_width = input.num_heads * input.head_dim;
  const int64_t k_width = input.num_kv_heads * input.head_dim;
  const int64_t v_width = input.num_kv_heads * input.value_dim;
  const int64_t out_width = input.num_heads * input.value_dim;
  int64_t begin = 0;
  for (int64_t s = 0; s < input.lengths.num_sequences(); ++s) {
    const int64_t tokens = input.lengths.real[s];
    const DenseSequence sequence{.tokens = tokens,
                                 .num_heads = input.num_heads,
                                 .num_kv_heads = input.num_kv_heads,
                                 .head_dim = input.head_dim,
                                 .value_dim = input.value_dim,
                                 .scale = input.scale,
                                 .left = input.mask.left,
                                 .right = input.mask.right,
                                 .q = RowsOf(input.q, begin, tokens, q_width),
                                 .k = RowsOf(input.k, begin, tokens, k_width),
                                 .v = RowsOf(input.v, begin, tokens, v_width)};
    const DenseResult dense = DenseAttention(sequence);
    PutRows(dense.out, begin, out_width, result.out);
    PutRows(dense.lse, begin, input.num_heads, result.lse);
    if (!input.dout.empty()) {
      const DenseGrads grads = DenseAttentionBackward(
          sequence, RowsOf(input.dout, begin, tokens, out_width));
      PutRows(grads.dq, begin, q_width, result.dq);
      PutRows(grads.dk, begin, k_width, result.dk);
      PutRows(grads.dv, begin, v_width, result.dv);
    }
    begin += input.lengths.padded[s];
  }
  return result;
}

double MaxDifference(const AttendResult& a, const AttendResult& b) {
  return std::max({MaxDifference(a.out, b.out), MaxDifference(a.lse, b.lse),
                   MaxDifference(a.dq, b.dq), MaxDifference(a.dk, b.dk),
                   MaxDifference(a.dv, b.dv)});
}

}  // namespace cpfeed
