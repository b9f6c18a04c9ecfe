#include "tests/core/shard/shard_reference.h"

#include <cstring>

#include "core/tensor/dtype.h"

namespace cpfeed::testing {
namespace {

int64_t Product(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

// An integer as an element of `dtype`: its low bytes.
std::string Element(DType dtype, int64_t value) {
  return std::string(reinterpret_cast<const char*>(&value), ItemSize(dtype));
}

// The integer of an element.
int64_t Number(DType dtype, const std::string& element) {
  if (dtype == DType::kInt32) {
    int32_t value;
    std::memcpy(&value, element.data(), sizeof(value));
    return value;
  }
  int64_t value;
  std::memcpy(&value, element.data(), sizeof(value));
  return value;
}

// `count` elements of one value.
std::string Repeated(DType dtype, int64_t value, int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) bytes += Element(dtype, value);
  return bytes;
}

// What a row behind `before`, the row before it in its slot ("" at the slot's
// begin), is where it was inserted.
std::string InsertedRow(const ThdBatch& batch, const ThdTensor& tensor,
                        const std::string& before) {
  const int64_t components = Product(tensor.inner);
  const int64_t item = ItemSize(tensor.dtype);
  switch (tensor.fill) {
    case PadFill::kZero:
      return Repeated(tensor.dtype, 0, components);
    case PadFill::kOne:
      return Repeated(tensor.dtype, 1, components);
    case PadFill::kPaddingId:
      return Repeated(tensor.dtype, batch.padding_token_id, components);
    case PadFill::kIgnoreLabel:
      return Repeated(tensor.dtype, -100, components);
    case PadFill::kContinue:
      break;
  }
  std::string row;
  for (int64_t c = 0; c < components; ++c) {
    const int64_t last =
        before.empty() ? -1
                       : Number(tensor.dtype, before.substr(c * item, item));
    row += Element(tensor.dtype, last + 1);
  }
  return row;
}

// A row that belongs to no position.
std::string PadRow(const ThdBatch& batch, const ThdTensor& tensor) {
  if (tensor.fill == PadFill::kContinue) {
    return Repeated(tensor.dtype, 0, Product(tensor.inner));
  }
  return InsertedRow(batch, tensor, "");
}

// Of a generated tensor.
std::string GeneratedRow(const ThdTensor& tensor, int64_t position,
                         int64_t real) {
  return tensor.origin == ThdTensor::Origin::kPositions
             ? Element(DType::kInt64, position)
             : Element(DType::kBool, position >= real);
}

std::vector<std::string> PaddedPlane(const ThdBatch& batch,
                                     const ThdChunk& chunk,
                                     const ThdTensor& tensor,
                                     const std::string& input, int64_t plane) {
  const int64_t row_bytes = Product(tensor.inner) * ItemSize(tensor.dtype);
  const int64_t plane_begin =
      plane * batch.num_rows * batch.row_width + chunk.source_begin;
  std::vector<std::string> stream;
  int64_t token = 0;
  for (size_t s = 0; s < chunk.lengths.padded.size(); ++s) {
    std::string before;
    for (int64_t p = 0; p < chunk.lengths.padded[s]; ++p) {
      if (tensor.origin != ThdTensor::Origin::kInput) {
        before = GeneratedRow(tensor, p, chunk.lengths.real[s]);
      } else if (p < chunk.source[s]) {
        before = input.substr((plane_begin + token) * row_bytes, row_bytes);
        ++token;
      } else {
        before = InsertedRow(batch, tensor, before);
      }
      stream.push_back(before);
    }
  }
  return stream;
}

}  // namespace

Stream PaddedStream(const ThdBatch& batch, const ThdChunk& chunk,
                    const ThdTensor& tensor) {
  std::string input(static_cast<size_t>(tensor.tensor.bytes.size()), '\0');
  tensor.tensor.bytes.CopyTo(input.data());
  Stream planes;
  for (int64_t plane = 0; plane < Product(tensor.outer); ++plane) {
    planes.push_back(PaddedPlane(batch, chunk, tensor, input, plane));
  }
  return planes;
}

std::vector<int32_t> SourceOfStream(const ThdChunk& chunk) {
  std::vector<int32_t> sources;
  int32_t token = 0;
  for (size_t s = 0; s < chunk.lengths.padded.size(); ++s) {
    for (int64_t p = 0; p < chunk.lengths.padded[s]; ++p) {
      sources.push_back(p < chunk.source[s] ? token++ : -1);
    }
  }
  return sources;
}

std::string ShardBytes(const ThdBatch& batch, const ThdTensor& tensor,
                       const Stream& stream, const ShardPlan& plan,
                       int cp_rank) {
  std::string bytes;
  for (const std::vector<std::string>& plane : stream) {
    for (const int32_t position : LocalIndex(plan, cp_rank)) {
      bytes += position < 0 ? PadRow(batch, tensor) : plane[position];
    }
  }
  return bytes;
}

}  // namespace cpfeed::testing
