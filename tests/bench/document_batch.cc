#include "tests/bench/document_batch.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"

namespace cpfeed::bench {
namespace {

constexpr int64_t kVocabulary = 128'000;
constexpr int64_t kIgnoredLabel = -100;

}  // namespace

PackedBatch MakeDocumentBatch(int64_t num_tokens, int64_t mean_length,
                              int64_t multiple) {
  std::mt19937_64 random(20'260'101);
  std::vector<int64_t> ids(num_tokens);
  std::vector<int64_t> labels(num_tokens, kIgnoredLabel);
  std::vector<int64_t> positions(num_tokens);
  RaggedLengths real;
  RaggedLengths padded;
  for (int64_t at = 0; at < num_tokens;) {
    const auto drawn =
        static_cast<int64_t>(1 + random() % (2 * mean_length - 1));
    const int64_t length = std::min(drawn, num_tokens - at);
    const int64_t slot = (length + multiple - 1) / multiple * multiple;
    for (int64_t i = 0; i < length; ++i) {
      ids[at + i] = static_cast<int64_t>(random() % kVocabulary);
      if (i > 0) labels[at + i - 1] = ids[at + i];
    }
    std::iota(positions.begin() + at, positions.begin() + at + slot, 0);
    real.values.push_back(length);
    padded.values.push_back(slot);
    at += slot;
  }
  const auto num_documents = static_cast<int64_t>(real.values.size());
  real.row_splits = {0, num_documents};
  padded.row_splits = {0, num_documents};
  PackedBatch batch;
  batch.input_ids = Tensor::FromVector({1, num_tokens}, std::move(ids));
  batch.labels = Tensor::FromVector({1, num_tokens}, std::move(labels));
  batch.position_ids =
      Tensor::FromVector({1, num_tokens}, std::move(positions));
  batch.seq_lens = std::move(real);
  batch.seq_lens_padded = std::move(padded);
  return batch;
}

}  // namespace cpfeed::bench
