#include "core/attention/dense_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cpfeed {
namespace {

double Dot(const double* a, const double* b, int64_t size) {
  double sum = 0;
  for (int64_t c = 0; c < size; ++c) sum += a[c] * b[c];
  return sum;
}

void AddScaled(double factor, const double* from, int64_t size, double* into) {
  for (int64_t c = 0; c < size; ++c) into[c] += factor * from[c];
}

// Where things are.
int64_t QueryAt(const DenseSequence& s, int64_t p, int64_t h) {
  return (p * s.num_heads + h) * s.head_dim;
}
int64_t OutputAt(const DenseSequence& s, int64_t p, int64_t h) {
  return (p * s.num_heads + h) * s.value_dim;
}
int64_t KeyAt(const DenseSequence& s, int64_t j, int64_t h) {
  const int64_t g = h / (s.num_heads / s.num_kv_heads);
  return (j * s.num_kv_heads + g) * s.head_dim;
}
int64_t ValueAt(const DenseSequence& s, int64_t j, int64_t h) {
  const int64_t g = h / (s.num_heads / s.num_kv_heads);
  return (j * s.num_kv_heads + g) * s.value_dim;
}

// How one query and head spreads over the keys [first, first +
// probabilities.size()).
struct Attended {
  int64_t first = 0;
  std::vector<double> probabilities;
  double lse = -std::numeric_limits<double>::infinity();
};

Attended AttendOne(const DenseSequence& s, int64_t p, int64_t h) {
  const int64_t end =
      s.right < 0 || s.right >= s.tokens - p ? s.tokens : p + s.right + 1;
  Attended attended{.first = s.left < 0 ? 0 : std::max<int64_t>(p - s.left, 0)};
  if (attended.first >= end) return attended;
  std::vector<double>& scores = attended.probabilities;
  for (int64_t j = attended.first; j < end; ++j) {
    scores.push_back(s.scale * Dot(&s.q[QueryAt(s, p, h)], &s.k[KeyAt(s, j, h)],
                                   s.head_dim));
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - most);
  for (double& score : scores) score = std::exp(score - most) / sum;
  attended.lse = most + std::log(sum);
  return attended;
}

// Adds what flows through one query and head.
void BackwardOne(const DenseSequence& s, int64_t p, int64_t h,
                 const double* dout, DenseGrads& grads) {
  const Attended attended = AttendOne(s, p, h);
  std::vector<double> out(s.value_dim);
  int64_t j = attended.first;
  for (const double probability : attended.probabilities) {
    AddScaled(probability, &s.v[ValueAt(s, j++, h)], s.value_dim, out.data());
  }
  const double delta = Dot(dout, out.data(), s.value_dim);
  j = attended.first;
  for (const double probability : attended.probabilities) {
    const double* const v = &s.v[ValueAt(s, j, h)];
    const double ds = probability * (Dot(dout, v, s.value_dim) - delta);
    AddScaled(probability, dout, s.value_dim, &grads.dv[ValueAt(s, j, h)]);
    AddScaled(s.scale * ds, &s.k[KeyAt(s, j, h)], s.head_dim,
              &grads.dq[QueryAt(s, p, h)]);
    AddScaled(s.scale * ds, &s.q[QueryAt(s, p, h)], s.head_dim,
              &grads.dk[KeyAt(s, j, h)]);
    ++j;
  }
}

}  // namespace

DenseResult DenseAttention(const DenseSequence& s) {
  DenseResult result;
  result.out.assign(s.tokens * s.num_heads * s.value_dim, 0.0);
  for (int64_t p = 0; p < s.tokens; ++p) {
    for (int64_t h = 0; h < s.num_heads; ++h) {
      const Attended attended = AttendOne(s, p, h);
      int64_t j = attended.first;
      for (const double probability : attended.probabilities) {
        AddScaled(probability, &s.v[ValueAt(s, j++, h)], s.value_dim,
                  &result.out[OutputAt(s, p, h)]);
      }
      result.lse.push_back(attended.lse);
    }
  }
  return result;
}

DenseGrads DenseAttentionBackward(const DenseSequence& s,
                                  const std::vector<double>& dout) {
  DenseGrads grads{std::vector<double>(s.q.size()),
                   std::vector<double>(s.k.size()),
                   std::vector<double>(s.v.size())};
  for (int64_t p = 0; p < s.tokens; ++p) {
    for (int64_t h = 0; h < s.num_heads; ++h) {
      BackwardOne(s, p, h, &dout[OutputAt(s, p, h)], grads);
    }
  }
  return grads;
}

}  // namespace cpfeed
