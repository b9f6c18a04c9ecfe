#include "tests/bench/length_mixes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/status_macros.h"

namespace cpfeed::bench {
namespace {

constexpr size_t kKnots = 17;
using Knots = std::array<double, kKnots>;

constexpr Knots kQuantiles = {0,    .01,  .05,   .10,   .25, .50,
                              .75,  .90,  .95,   .98,   .99, .995,
                              .998, .999, .9995, .9999, 1};

struct KnownMix {
  absl::string_view name;
  Knots lengths;  // At the quantiles.
};

constexpr KnownMix kKnown[] = {
    {"magi",
     {1, 21, 68, 117, 269, 571, 1266, 2881, 4917, 12162, 22358, 32021, 112283,
      151549, 175115, 193218, 196200}},
    {"wlb",
     {1, 63, 324, 646, 1606, 3227, 4832, 5784, 6110, 10080, 26070, 69118, 99310,
      119836, 122665, 124247, 124913}},
    {"prolong",
     {575, 678, 801, 919, 1237, 1914, 3467, 6051, 8379, 12310, 16273, 21393,
      33207, 47500, 74890, 240055, 340149}},
    {"wiki",
     {1, 39, 67, 87, 146, 347, 862, 2112, 3721, 7088, 10921, 15987, 26515,
      37367, 51517, 102060, 260000}},
};

// In [0, 1).
double Uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

double LogUniform(double from, double to, std::mt19937_64& random) {
  return from * std::exp(Uniform(random) * std::log(to / from));
}

// About normal, of mean 0 and deviation 1.
double Bell(std::mt19937_64& random) {
  double sum = -1.5;
  for (int i = 0; i < 3; ++i) sum += Uniform(random);
  return 2 * sum;
}

double DrawKnown(const Knots& lengths, std::mt19937_64& random) {
  const double quantile = Uniform(random);
  size_t knot = 0;
  while (knot + 2 < kKnots && quantile >= kQuantiles[knot + 1]) ++knot;
  const double part =
      (quantile - kQuantiles[knot]) / (kQuantiles[knot + 1] - kQuantiles[knot]);
  return lengths[knot] *
         std::exp(part * std::log(lengths[knot + 1] / lengths[knot]));
}

double DrawSft(std::mt19937_64& random) {
  if (Uniform(random) < 0.0011) return 37000 * std::exp(0.35 * Bell(random));
  return std::max(16.0, 1000 * std::exp(0.6 * Bell(random) - 0.18));
}

double DrawByted(std::mt19937_64& random) {
  const double quantile = Uniform(random);
  if (quantile < 0.8) return LogUniform(32, 4096, random);
  if (quantile < 0.9995) return LogUniform(4096, 262144, random);
  return 2097152;
}

double Draw(absl::string_view mix, std::mt19937_64& random) {
  if (mix == "sft") return DrawSft(random);
  if (mix == "byted") return DrawByted(random);
  for (const KnownMix& known : kKnown) {
    if (known.name == mix) return DrawKnown(known.lengths, random);
  }
  CF_CHECK(false);
}

}  // namespace

std::vector<std::string> LengthMixes() {
  return {"magi", "wlb", "prolong", "wiki", "sft", "byted"};
}

std::vector<int64_t> DrawPack(absl::string_view mix, int64_t total,
                              std::mt19937_64& random) {
  std::vector<int64_t> lengths;
  while (total > 0) {
    const auto drawn = static_cast<int64_t>(std::llround(Draw(mix, random)));
    lengths.push_back(std::clamp<int64_t>(drawn, 1, total));
    total -= lengths.back();
  }
  return lengths;
}

}  // namespace cpfeed::bench
