#include "core/wire/shard_codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/plan/shard_plan.h"
#include "core/wire/frame.h"
#include "core/wire/shard_tensors.h"
#include "core/wire/sharding_codec.h"
#include "core/wire/tensor_codec.h"

namespace cpfeed {
namespace {

constexpr absl::string_view kDescriptions[] = {
    kCuSeqlens, kCuSeqlensPadded, kSequencesPerRow,     kSourceLengths,
    kSegments,  kLocalCuSeqlens,  kLocalCuSeqlensPadded};

// What the fields take that EncodeStep leaves to its caller (numbers, batch_id,
// producer), and the message around the header.
constexpr int64_t kOtherHeaderBytes = 512;

// What the spec of "index" takes, which each chunk may get besides.
constexpr int64_t kIndexSpecBytes = 48;

Tensor Int32(std::vector<int32_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::FromVector<int32_t>({count}, std::move(values));
}

template <class T>
std::vector<int32_t> Differences(const std::vector<T>& splits) {
  std::vector<int32_t> counts;
  counts.reserve(splits.size());
  for (size_t i = 1; i < splits.size(); ++i) {
    counts.push_back(static_cast<int32_t>(splits[i] - splits[i - 1]));
  }
  return counts;
}

Tensor SegmentsTensor(const std::vector<Segment>& segments) {
  static_assert(sizeof(Segment) == 3 * sizeof(int32_t));
  return {.dtype = DType::kInt32,
          .shape = {static_cast<int64_t>(segments.size()), 3},
          .bytes = Buffer::CopyOf(
              segments.data(),
              static_cast<int64_t>(segments.size() * sizeof(Segment)))};
}

void EncodeShard(const Shard& shard, v1::ShardHeader& header, Buffer& payload) {
  const ThdChunk& chunk = *shard.chunk;
  header.set_plan_digest(shard.plan->digest);
  *header.mutable_sharding() = ShardingToProto(shard.plan->spec);
  header.set_total_tokens(chunk.total_tokens);
  header.set_num_tokens(shard.num_tokens);
  header.set_num_label_tokens(shard.num_label_tokens);
  header.set_max_seqlen(chunk.max_seqlen);
  header.set_max_seqlen_padded(chunk.max_seqlen_padded);
  TensorSpecs& specs = *header.mutable_tensors();
  const auto add = [&](absl::string_view name, const Tensor& tensor) {
    EncodeTensor(name, tensor, 0, specs, payload);
  };
  add(kCuSeqlens, Int32(chunk.cu_seqlens));
  add(kCuSeqlensPadded, Int32(chunk.cu_seqlens_padded));
  add(kSequencesPerRow, Int32(Differences(chunk.lengths.row_splits)));
  if (chunk.source != chunk.lengths.padded) {
    add(kSourceLengths,
        Int32(std::vector<int32_t>(chunk.source.begin(), chunk.source.end())));
  }
  add(kSegments, SegmentsTensor(shard.plan->ranks[shard.cp_rank].segments));
  add(kLocalCuSeqlens, Int32(shard.local.cu_seqlens));
  add(kLocalCuSeqlensPadded, Int32(shard.local.cu_seqlens_padded));
  for (const NamedTensor& named : shard.tensors) {
    add(named.name, named.tensor);
    specs.Mutable(specs.size() - 1)->set_token_axis(named.token_axis);
  }
}

// The index of a shard out of its encoded segments.
Tensor ExpandIndex(const Buffer& cu_seqlens_padded, const Buffer& segments,
                   int64_t num_tokens) {
  const Buffer starts = cu_seqlens_padded.Contiguous();
  const Buffer flat = segments.Contiguous();
  const auto* start = reinterpret_cast<const int32_t*>(starts.data());
  const auto* segment = reinterpret_cast<const Segment*>(flat.data());
  std::vector<int32_t> index;
  index.reserve(num_tokens);
  for (size_t i = 0; i < flat.size() / sizeof(Segment); ++i) {
    const int32_t first = start[segment[i].sequence] + segment[i].begin;
    for (int32_t j = 0; j < segment[i].length; ++j) index.push_back(first + j);
  }
  index.resize(num_tokens, -1);
  return Int32(std::move(index));
}

}  // namespace

bool IsShardDescription(absl::string_view name) {
  return std::find(std::begin(kDescriptions), std::end(kDescriptions), name) !=
         std::end(kDescriptions);
}

EncodedStep EncodeStep(const StepShard& shard, int cp_rank) {
  EncodedStep step;
  step.header.set_cp_rank(cp_rank);
  step.header.set_num_label_tokens_global(shard.num_label_tokens_global);
  for (const Shard& chunk : shard.chunks) {
    EncodeShard(chunk, *step.header.add_chunks(), step.payload);
  }
  step.header.set_payload_bytes(step.payload.size());
  return step;
}

absl::Status CheckStepHeader(const v1::StepHeader& header) {
  const int64_t bytes = static_cast<int64_t>(header.ByteSizeLong()) +
                        kOtherHeaderBytes +
                        header.chunks_size() * kIndexSpecBytes;
  if (bytes <= kMaxHeaderBytes) return absl::OkStatus();
  return InvalidArgument(
      kBatchTooLarge,
      absl::StrCat("headers of the step's ", header.chunks_size(),
                   " chunks have ", bytes, " bytes; must be at most ",
                   kMaxHeaderBytes,
                   ": give fewer tensors, shorter names or fewer chunks"));
}

EncodedStep SelectTensors(const EncodedStep& step,
                          const std::vector<std::string>& names) {
  if (names.empty()) return step;
  const auto wanted = [&](absl::string_view name) {
    return IsShardDescription(name) ||
           std::find(names.begin(), names.end(), name) != names.end();
  };
  EncodedStep selected{.header = step.header};
  int64_t offset = 0;
  for (v1::ShardHeader& header : *selected.header.mutable_chunks()) {
    TensorSpecs specs;
    Buffer cu_seqlens_padded;
    Buffer segments;
    header.mutable_tensors()->Swap(&specs);
    for (v1::TensorSpec& spec : specs) {
      const Buffer bytes = step.payload.Slice(offset, SpecBytes(spec));
      offset += bytes.size();
      if (spec.name() == kCuSeqlensPadded) cu_seqlens_padded = bytes;
      if (spec.name() == kSegments) segments = bytes;
      if (!wanted(spec.name()) || spec.name() == kIndex) continue;
      selected.payload.Append(bytes);
      *header.add_tensors() = std::move(spec);
    }
    if (wanted(kIndex)) {
      EncodeTensor(
          kIndex, ExpandIndex(cu_seqlens_padded, segments, header.num_tokens()),
          0, *header.mutable_tensors(), selected.payload);
    }
  }
  selected.header.set_payload_bytes(selected.payload.size());
  return selected;
}

Tensor TokenRange(const Tensor& tensor, int token_axis, int64_t begin,
                  int64_t end) {
  int64_t outer = 1;
  int64_t row_bytes = ItemSize(tensor.dtype);
  for (int i = 0; i < token_axis; ++i) outer *= tensor.shape[i];
  for (size_t i = token_axis + 1; i < tensor.shape.size(); ++i) {
    row_bytes *= tensor.shape[i];
  }
  const int64_t plane = tensor.shape[token_axis] * row_bytes;
  Tensor range{.dtype = tensor.dtype, .shape = tensor.shape};
  range.shape[token_axis] = end - begin;
  for (int64_t o = 0; o < outer; ++o) {
    range.bytes.Append(tensor.bytes.Slice(o * plane + begin * row_bytes,
                                          (end - begin) * row_bytes));
  }
  return range;
}

}  // namespace cpfeed
