// Counts the labels that take part in the loss.

#ifndef CPFEED_CORE_THD_LABEL_COUNT_H_
#define CPFEED_CORE_THD_LABEL_COUNT_H_

#include <cstdint>

#include "core/tensor/tensor.h"

namespace cpfeed {

// Labels of this value are ignored by the loss.
inline constexpr int64_t kIgnoreLabel = -100;

// How many elements of `labels`, a tensor of an integer dtype, are not
// kIgnoreLabel. The bytes may be cut anywhere.
int64_t CountLabelTokens(const Tensor& labels);

}  // namespace cpfeed

#endif  // CPFEED_CORE_THD_LABEL_COUNT_H_
