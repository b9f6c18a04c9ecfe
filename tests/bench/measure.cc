#include "tests/bench/measure.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/base/status_macros.h"

namespace cpfeed::bench {
namespace {

double Read(clockid_t clock) {
  timespec now;
  CF_CHECK(clock_gettime(clock, &now) == 0);
  return static_cast<double>(now.tv_sec) + now.tv_nsec * 1e-9;
}

// Thousandths: more than a ratio of times is worth.
double Rounded(double value) { return std::round(value * 1e3) / 1e3; }

}  // namespace

double CpuSeconds(pid_t pid) {
  clockid_t clock;
  CF_CHECK(clock_getcpuclockid(pid, &clock) == 0);
  return Read(clock);
}

double WallSeconds() { return Read(CLOCK_MONOTONIC); }

Stopwatch::Stopwatch()
    : wall_(WallSeconds()), cpu_(Read(CLOCK_PROCESS_CPUTIME_ID)) {}

Cost Stopwatch::Elapsed() const {
  return {.wall = WallSeconds() - wall_,
          .cpu = Read(CLOCK_PROCESS_CPUTIME_ID) - cpu_};
}

double Median(std::vector<double> values) {
  CF_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : (values[half - 1] + values[half]) / 2;
}

nlohmann::json Milliseconds(const std::vector<Cost>& rounds) {
  std::vector<double> wall;
  std::vector<double> cpu;
  for (const Cost& cost : rounds) {
    wall.push_back(cost.wall * 1e3);
    cpu.push_back(cost.cpu * 1e3);
  }
  return {{"wall", Rounded(Median(wall))}, {"cpu", Rounded(Median(cpu))}};
}

nlohmann::json RatioOf(const std::vector<Cost>& a, const std::vector<Cost>& b) {
  CF_CHECK(a.size() == b.size());
  std::vector<double> wall;
  std::vector<double> cpu;
  for (size_t i = 0; i < a.size(); ++i) {
    wall.push_back(a[i].wall / b[i].wall);
    cpu.push_back(a[i].cpu / b[i].cpu);
  }
  return {{"wall", Rounded(Median(wall))}, {"cpu", Rounded(Median(cpu))}};
}

}  // namespace cpfeed::bench
