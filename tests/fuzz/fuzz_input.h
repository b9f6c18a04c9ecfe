// Takes the bytes that a fuzzer makes apart.

#ifndef CPFEED_TESTS_FUZZ_FUZZ_INPUT_H_
#define CPFEED_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/tensor/buffer.h"

namespace cpfeed::testing {

// Reads front to back; behind the end all is zero or empty.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size)
      : bytes_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return at_ == bytes_.size(); }

  uint8_t Byte() {
    const std::string byte = Bytes(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }

  // A string that its length, two bytes, goes before.
  std::string Counted() {
    const size_t low = Byte();
    return Bytes(low | static_cast<size_t>(Byte()) << 8);
  }

  std::string Rest() { return Bytes(bytes_.size()); }

 private:
  std::string Bytes(size_t size) {
    std::string taken = bytes_.substr(at_, size);
    at_ += taken.size();
    return taken;
  }

  std::string bytes_;
  size_t at_ = 0;
};

// The bytes in fragments of `size` (at least 1) in memory of their own, so that
// AddressSanitizer sees a read behind an end.
inline Buffer Fragments(const std::string& bytes, size_t size) {
  Buffer buffer;
  for (size_t at = 0; at < bytes.size(); at += size) {
    const std::string piece = bytes.substr(at, std::max<size_t>(size, 1));
    buffer.Append(
        Buffer::CopyOf(piece.data(), static_cast<int64_t>(piece.size())));
  }
  return buffer;
}

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_FUZZ_FUZZ_INPUT_H_
