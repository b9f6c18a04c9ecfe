// Integers of some width inside a file.

#ifndef CPFEED_CLIENT_DOCUMENTS_INTEGER_ARRAY_H_
#define CPFEED_CLIENT_DOCUMENTS_INTEGER_ARRAY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

// How tokens are stored, little-endian.
enum class IntegerType : int8_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
};

// Bytes of one integer.
int64_t IntegerSize(IntegerType type);

// Appends the `count` integers at byte `offset` of `bytes`, which holds them
// all at any alignment, to `out`.
//
// Errors:
//   INVALID_ARGUMENT  One is no token: negative, or 2^63 or more (reason
//                     INPUT_MALFORMED; the message has its place among them).
absl::Status AppendTokens(absl::string_view bytes, IntegerType type,
                          int64_t offset, int64_t count,
                          std::vector<int64_t>& out);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_INTEGER_ARRAY_H_
