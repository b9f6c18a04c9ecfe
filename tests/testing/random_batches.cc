#include "tests/testing/random_batches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "tests/testing/random_cut.h"

namespace cpfeed::testing {
namespace {

int64_t Uniform(int64_t least, int64_t most, std::mt19937_64& random) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

bool OneIn(int64_t count, std::mt19937_64& random) {
  return Uniform(1, count, random) == 1;
}

DType OneOf(const std::vector<DType>& dtypes, std::mt19937_64& random) {
  return dtypes[random() % dtypes.size()];
}

template <class T>
Tensor Integers(DType dtype, Shape shape, int64_t least, int64_t most,
                int64_t ignored, std::mt19937_64& random) {
  std::vector<T> values(*NumElements(shape));
  for (T& value : values) {
    value = static_cast<T>(OneIn(4, random) ? ignored
                                            : Uniform(least, most, random));
  }
  return {.dtype = dtype,
          .shape = std::move(shape),
          .bytes = Buffer::FromVector(std::move(values))};
}

Tensor RandomLabels(Shape shape, std::mt19937_64& random) {
  const DType dtype = OneOf(
      {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}, random);
  switch (dtype) {
    case DType::kInt8:
      return Integers<int8_t>(dtype, shape, -128, 127, -100, random);
    case DType::kInt16:
      return Integers<int16_t>(dtype, shape, -200, 999, -100, random);
    case DType::kInt32:
      return Integers<int32_t>(dtype, shape, -200, 50'000, -100, random);
    default:
      return Integers<int64_t>(dtype, shape, -200, 50'000, -100, random);
  }
}

Tensor RandomPositions(Shape shape, std::mt19937_64& random) {
  if (OneIn(2, random)) shape.insert(shape.begin(), 3);
  if (OneIn(2, random)) {
    return Integers<int32_t>(DType::kInt32, shape, 0, 9999, 0, random);
  }
  return Integers<int64_t>(DType::kInt64, shape, 0, 9999, 0, random);
}

// Slots of one row: multiples of `unit` that sum to `sum`, some of them 0.
std::vector<int64_t> RandomSlots(int64_t sum, int64_t unit,
                                 std::mt19937_64& random) {
  std::vector<int64_t> cuts = {0, sum / unit};
  const int64_t num_slots = Uniform(1, 7, random);
  for (int64_t i = 1; i < num_slots; ++i) {
    cuts.push_back(Uniform(0, sum / unit, random));
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<int64_t> slots;
  for (size_t i = 1; i < cuts.size(); ++i) {
    slots.push_back((cuts[i] - cuts[i - 1]) * unit);
  }
  return slots;
}

void AddLengths(const BatchShape& shape, int64_t width, std::mt19937_64& random,
                PackedBatch& batch) {
  const bool with_padding = OneIn(2, random);
  RaggedLengths real{.row_splits = {0}};
  RaggedLengths padded{.row_splits = {0}};
  for (int64_t row = 0; row < shape.num_rows; ++row) {
    int64_t sum = width;
    if (shape.fill && OneIn(2, random)) sum = Uniform(0, width, random);
    for (const int64_t slot : RandomSlots(sum, shape.slot_multiple, random)) {
      const bool full = !with_padding || OneIn(3, random);
      padded.values.push_back(slot);
      real.values.push_back(full ? slot : Uniform(0, slot, random));
    }
    padded.row_splits.push_back(static_cast<int64_t>(padded.values.size()));
  }
  real.row_splits = padded.row_splits;
  batch.seq_lens = std::move(real);
  if (with_padding || OneIn(2, random)) {
    batch.seq_lens_padded = std::move(padded);
  }
}

void AddExtras(int64_t num_rows, int64_t width, std::mt19937_64& random,
               PackedBatch& batch) {
  if (OneIn(2, random)) {
    batch.extras.push_back(
        {"loss_mask",
         RandomTensor(DType::kFloat32, {num_rows, width}, random)});
  }
  if (OneIn(2, random)) {
    batch.extras.push_back(
        {"patches",
         RandomTensor(DType::kBfloat16, {2, num_rows, width, 3}, random), 2});
  }
  if (OneIn(3, random)) {
    batch.extras.push_back(
        {"flags", RandomTensor(OneOf({DType::kBool, DType::kUint8,
                                      DType::kInt16, DType::kFloat64},
                                     random),
                               {num_rows, width, 1, 2}, random)});
  }
}

void Cut(Tensor& tensor, std::mt19937_64& random) {
  if (OneIn(3, random)) return;
  tensor.bytes = RandomlyCut(tensor.bytes, Uniform(1, 300, random), random);
}

}  // namespace

Tensor RandomTensor(DType dtype, Shape shape, std::mt19937_64& random) {
  const absl::StatusOr<int64_t> size = NumBytes(dtype, shape);
  CF_CHECK(size.ok());
  auto [bytes, data] = Buffer::Allocate(*size);
  for (int64_t i = 0; i < *size; ++i) {
    data[i] =
        static_cast<std::byte>(dtype == DType::kBool ? random() % 2 : random());
  }
  return {.dtype = dtype, .shape = std::move(shape), .bytes = std::move(bytes)};
}

PackedBatch RandomBatch(const BatchShape& shape, std::mt19937_64& random) {
  const int64_t unit = shape.width_multiple;
  const int64_t width =
      unit * Uniform(1, std::max<int64_t>(shape.most_width / unit, 1), random);
  const int64_t rows = shape.num_rows;
  PackedBatch batch;
  if (OneIn(4, random)) {
    batch.input_ids = RandomTensor(
        OneOf({DType::kBfloat16, DType::kFloat32, DType::kFloat64}, random),
        {rows, width, Uniform(1, 5, random)}, random);
  } else {
    batch.input_ids = RandomTensor(
        OneOf({DType::kInt32, DType::kInt64}, random), {rows, width}, random);
  }
  batch.labels = RandomLabels({rows, width}, random);
  if (OneIn(2, random)) {
    batch.position_ids = RandomPositions({rows, width}, random);
  }
  // Without lengths each row is a slot.
  const bool row_is_slot = width % shape.slot_multiple == 0;
  if (!row_is_slot || !OneIn(4, random)) {
    AddLengths(shape, width, random, batch);
  }
  AddExtras(rows, width, random, batch);
  for (Tensor* tensor :
       {&batch.input_ids, &batch.labels, &batch.position_ids}) {
    Cut(*tensor, random);
  }
  for (TokenTensor& extra : batch.extras) Cut(extra.tensor, random);
  return batch;
}

}  // namespace cpfeed::testing
