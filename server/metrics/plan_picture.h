// Who holds what of a step, as text.

#ifndef CPFEED_SERVER_METRICS_PLAN_PICTURE_H_
#define CPFEED_SERVER_METRICS_PLAN_PICTURE_H_

#include <string>

#include "server/held_step.h"

namespace cpfeed {

// A line a rank, at most 16, and 64 columns over the tokens of the first chunk:
// '#' where the rank holds all of a column's tokens, '+' some, '.' none. Two
// sequences of 8 over two ranks, 16 tokens and so 16 columns:
//
//   step 3: 16 tokens, plan 5f0c...
//     rank 0  ##....##  ...
//
// (without the gap). Empty lines where the step cannot be read.
std::string PlanPicture(const HeldStep& held);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_METRICS_PLAN_PICTURE_H_
