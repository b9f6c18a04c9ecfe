// Text to token ids.

#ifndef CPFEED_CLIENT_DOCUMENTS_TOKENIZER_H_
#define CPFEED_CLIENT_DOCUMENTS_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cpfeed {

// The two ids beside the bytes in byte-level tokens.
inline constexpr int64_t kByteEndTokenId = 256;
inline constexpr int64_t kBytePaddingTokenId = 257;

// Not thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids of each text, without special tokens.
  virtual absl::StatusOr<std::vector<std::vector<int64_t>>> Encode(
      absl::Span<const std::string> texts) = 0;

  // Differs for other vocabularies.
  virtual uint64_t Fingerprint() const = 0;
};

// Each byte is its own id, 0 to 255.
class ByteTokenizer : public Tokenizer {
 public:
  absl::StatusOr<std::vector<std::vector<int64_t>>> Encode(
      absl::Span<const std::string> texts) override;
  uint64_t Fingerprint() const override { return 0; }
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_TOKENIZER_H_
