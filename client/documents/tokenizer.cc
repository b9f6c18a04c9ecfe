#include "client/documents/tokenizer.h"

namespace cpfeed {

absl::StatusOr<std::vector<std::vector<int64_t>>> ByteTokenizer::Encode(
    absl::Span<const std::string> texts) {
  std::vector<std::vector<int64_t>> encoded;
  for (const std::string& text : texts) {
    std::vector<int64_t>& ids = encoded.emplace_back();
    ids.reserve(text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }
  return encoded;
}

}  // namespace cpfeed
