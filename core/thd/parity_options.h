// The arguments of upstream's conversion.

#ifndef CPFEED_CORE_THD_PARITY_OPTIONS_H_
#define CPFEED_CORE_THD_PARITY_OPTIONS_H_

#include <cstdint>

#include "core/batch/parity.h"

namespace cpfeed {

struct ParityOptions {
  Parity parity = Parity::kAutomodel07;  // Not kNative.
  int64_t num_chunks = 1;
  int64_t padding_token_id = 0;
  int64_t seq_lens_padding_value = -1000;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_PARITY_OPTIONS_H_
