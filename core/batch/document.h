// One document as token ids, on its way into a packed batch.

#ifndef CPFEED_CORE_BATCH_DOCUMENT_H_
#define CPFEED_CORE_BATCH_DOCUMENT_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace cpfeed {

// A whole document, or a piece of one that is too long for its reader.
struct Document {
  std::vector<int64_t> input_ids;

  // One for each token, already shifted (-100: not a target). Without them the
  // packer makes them from input_ids.
  std::optional<std::vector<int64_t>> labels;

  // 0 where a label does not count. For packing in a parity mode only: the
  // packer refuses it, since labels of -100 say the same.
  std::optional<std::vector<int64_t>> loss_mask;

  // In a piece that others follow: the first token of the next piece, which is
  // the target of this one's last token. Not set at the end of a document.
  std::optional<int64_t> next_token;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_DOCUMENT_H_
