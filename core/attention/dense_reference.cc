#include "core/attention/dense_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cpfeed {
namespace {

// Attention of one query, of one head, over the keys [first, end).
void AttendOne(const DenseSequence& s, int64_t p, int64_t h, int64_t first,
               int64_t end, DenseResult& result) {
  const int64_t g = h / (s.num_heads / s.num_kv_heads);
  const double* q = &s.q[(p * s.num_heads + h) * s.head_dim];
  std::vector<double> scores;
  for (int64_t j = first; j < end; ++j) {
    const double* k = &s.k[(j * s.num_kv_heads + g) * s.head_dim];
    double dot = 0;
    for (int64_t c = 0; c < s.head_dim; ++c) dot += q[c] * k[c];
    scores.push_back(s.scale * dot);
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - most);
  double* out = &result.out[(p * s.num_heads + h) * s.value_dim];
  for (int64_t j = first; j < end; ++j) {
    const double probability = std::exp(scores[j - first] - most) / sum;
    const double* v = &s.v[(j * s.num_kv_heads + g) * s.value_dim];
    for (int64_t c = 0; c < s.value_dim; ++c) out[c] += probability * v[c];
  }
  result.lse[p * s.num_heads + h] = most + std::log(sum);
}

}  // namespace

DenseResult DenseAttention(const DenseSequence& s) {
  DenseResult result;
  result.out.assign(s.tokens * s.num_heads * s.value_dim, 0.0);
  result.lse.assign(s.tokens * s.num_heads,
                    -std::numeric_limits<double>::infinity());
  for (int64_t p = 0; p < s.tokens; ++p) {
    const int64_t first = s.left < 0 ? 0 : std::max<int64_t>(p - s.left, 0);
    const int64_t end =
        s.right < 0 || s.right >= s.tokens - p ? s.tokens : p + s.right + 1;
    if (first >= end) continue;
    for (int64_t h = 0; h < s.num_heads; ++h) {
      AttendOne(s, p, h, first, end, result);
    }
  }
  return result;
}

}  // namespace cpfeed
