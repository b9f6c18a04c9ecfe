#include "client/documents/integer_array.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/documents/document_store.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

template <class T>
absl::Status Append(const char* from, int64_t count,
                    std::vector<int64_t>& out) {
  out.reserve(out.size() + count);
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    const auto token = static_cast<int64_t>(value);
    if (token < 0) {
      return InvalidArgument(
          kInputMalformed,
          absl::StrCat("token ", i, " is ", value, "; must be in [0, 2^63)"));
    }
    out.push_back(token);
  }
  return absl::OkStatus();
}

}  // namespace

int64_t IntegerSize(IntegerType type) {
  switch (type) {
    case IntegerType::kUint8:
    case IntegerType::kInt8:
      return 1;
    case IntegerType::kUint16:
    case IntegerType::kInt16:
      return 2;
    case IntegerType::kUint32:
    case IntegerType::kInt32:
      return 4;
    case IntegerType::kUint64:
    case IntegerType::kInt64:
      return 8;
  }
  CF_CHECK(false);
}

absl::Status AppendTokens(absl::string_view bytes, IntegerType type,
                          int64_t offset, int64_t count,
                          std::vector<int64_t>& out) {
  CF_CHECK(offset >= 0 && count >= 0 &&
           offset + count * IntegerSize(type) <=
               static_cast<int64_t>(bytes.size()));
  const char* from = bytes.data() + offset;
  switch (type) {
    case IntegerType::kUint8:
      return Append<uint8_t>(from, count, out);
    case IntegerType::kInt8:
      return Append<int8_t>(from, count, out);
    case IntegerType::kUint16:
      return Append<uint16_t>(from, count, out);
    case IntegerType::kInt16:
      return Append<int16_t>(from, count, out);
    case IntegerType::kUint32:
      return Append<uint32_t>(from, count, out);
    case IntegerType::kInt32:
      return Append<int32_t>(from, count, out);
    case IntegerType::kUint64:
      return Append<uint64_t>(from, count, out);
    case IntegerType::kInt64:
      return Append<int64_t>(from, count, out);
  }
  CF_CHECK(false);
}

}  // namespace cpfeed
