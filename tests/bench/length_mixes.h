// Packs of document lengths as training data has them.

#ifndef CPFEED_TESTS_BENCH_LENGTH_MIXES_H_
#define CPFEED_TESTS_BENCH_LENGTH_MIXES_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cpfeed::bench {

// Distributions after published statistics of lengths in tokens:
//   magi     web data as MagiAttention's benchmark describes it
//   wlb      web data for a window of 128K, after the WLB-LLM paper's figure
//   prolong  long documents: books and code (ProLong)
//   wiki     Wikipedia, tokenised
//   sft      99.89% of about 1K, 0.11% of about 37K (Llama 3)
//   byted    80% below 4K, 19.95% to 256K, 0.05% of 2M
std::vector<std::string> LengthMixes();

// Lengths of one pack of exactly `total` tokens: drawn one after another, the
// last one cut. The same on every machine for the same generator, up to the
// last bit of exp().
std::vector<int64_t> DrawPack(absl::string_view mix, int64_t total,
                              std::mt19937_64& random);

}  // namespace cpfeed::bench

#endif  // CPFEED_TESTS_BENCH_LENGTH_MIXES_H_
