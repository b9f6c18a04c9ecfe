// Small batches for tests.

#ifndef CPFEED_TESTS_TESTING_PACKED_BATCHES_H_
#define CPFEED_TESTS_TESTING_PACKED_BATCHES_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "core/batch/packed_batch.h"
#include "core/tensor/tensor.h"

namespace cpfeed::testing {

// One list of lengths a row: Ragged({{3, 2}, {6}}).
inline RaggedLengths Ragged(const std::vector<std::vector<int64_t>>& rows) {
  RaggedLengths lengths;
  lengths.row_splits.push_back(0);
  for (const auto& row : rows) {
    lengths.values.insert(lengths.values.end(), row.begin(), row.end());
    lengths.row_splits.push_back(static_cast<int64_t>(lengths.values.size()));
  }
  return lengths;
}

// An int64 tensor of `shape` that counts up from `first`.
inline Tensor CountingTensor(Shape shape, int64_t first = 0) {
  std::vector<int64_t> values(*NumElements(shape));
  std::iota(values.begin(), values.end(), first);
  return Tensor::FromVector(std::move(shape), std::move(values));
}

// B rows of S tokens without lengths: ids 0, 1, 2, ..., labels 1, 2, 3, ...
inline PackedBatch CountingBatch(int64_t num_rows, int64_t row_width) {
  PackedBatch batch;
  batch.input_ids = CountingTensor({num_rows, row_width}, 0);
  batch.labels = CountingTensor({num_rows, row_width}, 1);
  return batch;
}

// The same tensor with its bytes in fragments of `fragment_size` bytes (the
// last may be shorter), none of which is aligned.
inline Tensor Fragmented(const Tensor& tensor, int64_t fragment_size) {
  const Buffer whole = tensor.bytes.Contiguous();
  Tensor cut{.dtype = tensor.dtype, .shape = tensor.shape, .bytes = {}};
  for (int64_t at = 0; at < whole.size(); at += fragment_size) {
    const int64_t size = std::min(fragment_size, whole.size() - at);
    auto [buffer, bytes] = Buffer::Allocate(size + 1);
    whole.Slice(at, size).CopyTo(bytes + 1);
    cut.bytes.Append(buffer.Slice(1, size));
  }
  return cut;
}

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_TESTING_PACKED_BATCHES_H_
