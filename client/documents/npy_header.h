// The header of NumPy's .npy files.

#ifndef CPFEED_CLIENT_DOCUMENTS_NPY_HEADER_H_
#define CPFEED_CLIENT_DOCUMENTS_NPY_HEADER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/documents/integer_array.h"

namespace cpfeed {

struct NpyHeader {
  IntegerType type = IntegerType::kInt64;
  std::vector<int64_t> shape;  // One or two dimensions, each at least 0.
  int64_t data_offset = 0;     // Byte of the first element.
};

// Reads the header of a file with `contents` (format versions 1 to 3, NEP 1)
// and checks that the elements are just the rest of the file.
//
// Errors:
//   INVALID_ARGUMENT  It is no .npy file, is cut off or too long, or holds
//                     anything but little-endian integers in one dimension or
//                     in two in C order (reason INPUT_MALFORMED).
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view contents);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_NPY_HEADER_H_
