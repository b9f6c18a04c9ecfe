// What no plan can be better than, to read the metrics of plans by.

#ifndef CPFEED_CORE_PLAN_PLAN_BOUNDS_H_
#define CPFEED_CORE_PLAN_PLAN_BOUNDS_H_

#include <cstdint>

#include "core/batch/packed_lengths.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {

// Lower bounds on figures of PlanMetrics. 0 where no better one is known.
struct PlanBounds {
  int64_t max_tokens = 0;     // ceil(real tokens / cp_size)
  double area_imbalance = 1;  // The heaviest row must be on some rank.
  double mean_kv_rows = 0;    // By area and token limits; see below.
  double mean_kv_band = 0;    // By bands; see below. Mostly the higher one.
  double max_kv_rows = 0;
  double max_tiles = 0;
  int64_t max_slices = 0;  // ceil(sequences with tokens / cp_size)
};

// For plans of `lengths` over cp_size ranks under `mask`, whose queries stay
// where their tokens are. C is max_tokens, A the mean area of a rank, L the
// length of a sequence.
//
// Key-value rows, causal. Let rank r hold n rows of a sequence, the last at
// position e - 1: it receives e - n.
//   mean_kv_rows, for plans with area_imbalance 1: the area of r in the
//   sequence
//     is at most n * e, so by Cauchy over its ranks the sum of e - n is at
//     least L^3 / (4 A) - L; and with q = floor(L / C) it is at least C q (q -
//     1) / 2 + q (L - q C). The larger, summed over sequences.
//   mean_kv_band, for plans with area_imbalance up to 1.01 and at most C tokens
//     a rank: sort a sequence's ranks by e, e_1 = L. Rows above e_(j+1) are on
//     ranks 1..j, so they are at most j C and have at most the area 1.01 j A:
//     e_(j+1) >= max(sqrt(L^2 - 2.02 j A) - 1, L - j C). Their sum over j.
//   max_kv_rows, for the same plans: the larger of mean_kv_band and L - n of
//   the
//     longest sequence. Its last row's owner sees all of it and holds at most n
//     rows of it: n <= C, and L + n (n - 1) / 2 <= 1.01 A, as the others that
//     it holds are at best the lightest.
// Key-value rows, full mask: each of the at least ceil(L / C) ranks of a
// sequence receives what it does not hold. Windows: 0.
//
// Example: one sequence of 8 on two ranks, causal: C = 4, A = 18, and the last
// row and three others have at least the area 8 + 1 + 2 + 3; max_kv_rows is 4,
// which HEAD_TAIL_PER_SEQUENCE reaches.
PlanBounds ComputePlanBounds(const PackedLengths& lengths, int cp_size,
                             const VisibleKeys& mask);

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_PLAN_BOUNDS_H_
