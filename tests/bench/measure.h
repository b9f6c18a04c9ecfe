// Time, and what to make of repeated measurements.

#ifndef CPFEED_TESTS_BENCH_MEASURE_H_
#define CPFEED_TESTS_BENCH_MEASURE_H_

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace cpfeed::bench {

// Seconds.
struct Cost {
  double wall = 0;
  double cpu = 0;  // All threads, user and system.
};

// CPU seconds that a process of this user has spent so far.
double CpuSeconds(pid_t pid);

// The monotonic clock, the same in all processes.
double WallSeconds();

// Counts from its making on, CPU time of this process.
class Stopwatch {
 public:
  Stopwatch();
  Cost Elapsed() const;

 private:
  double wall_;
  double cpu_;
};

// `values` is not empty.
double Median(std::vector<double> values);

// Medians over rounds in milliseconds: {"wall", "cpu"}.
nlohmann::json Milliseconds(const std::vector<Cost>& rounds);

// The median over rounds of a[i] / b[i]: {"wall", "cpu"}. Pairs of one round
// saw the same load of the machine.
nlohmann::json RatioOf(const std::vector<Cost>& a, const std::vector<Cost>& b);

}  // namespace cpfeed::bench

#endif  // CPFEED_TESTS_BENCH_MEASURE_H_
