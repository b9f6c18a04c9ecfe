// Queries, keys and values without a model.

#ifndef CPFEED_CLIENT_WORKER_TOKEN_FEATURE_H_
#define CPFEED_CLIENT_WORKER_TOKEN_FEATURE_H_

#include <cstdint>

namespace cpfeed {

enum class FeatureKind { kQuery, kKey, kValue };

// One component of the query, key or value vector that stands for a token: a
// hash of all arguments, spread over the multiples of 1/128 in [-1, 1), which
// every float dtype from bfloat16 on holds exactly. Two tokens, positions or
// heads give different vectors, so that any mix-up of rows shows in the output
// of attention.
double TokenFeature(FeatureKind kind, int64_t token, int64_t position,
                    int64_t head, int64_t component);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_TOKEN_FEATURE_H_
