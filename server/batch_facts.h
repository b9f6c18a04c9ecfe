// What is worth counting of a converted batch.

#ifndef CPFEED_SERVER_BATCH_FACTS_H_
#define CPFEED_SERVER_BATCH_FACTS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace cpfeed {

struct BatchFacts {
  int64_t real_tokens = 0;
  int64_t padding_tokens = 0;
  // Attention area of the busiest rank over the mean, of the plan whose ratio
  // is largest; 1 is even.
  double area_imbalance = 1;
  // Validation, conversion, planning and verification of the plans; without
  // waiting for memory.
  absl::Duration planning;
  // Cutting, checksums.
  absl::Duration sharding;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_BATCH_FACTS_H_
