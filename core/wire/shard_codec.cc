#include "core/wire/shard_codec.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/shard_plan.h"
#include "core/wire/sharding_codec.h"
#include "core/wire/tensor_codec.h"

namespace cpfeed {
namespace {

constexpr char kCuSeqlens[] = "cu_seqlens";
constexpr char kCuSeqlensPadded[] = "cu_seqlens_padded";
constexpr char kSequencesPerRow[] = "sequences_per_row";
constexpr char kSourceLengths[] = "source_lengths";
constexpr char kSegments[] = "segments";
constexpr char kLocalCuSeqlens[] = "local_cu_seqlens";
constexpr char kLocalCuSeqlensPadded[] = "local_cu_seqlens_padded";
constexpr char kIndex[] = "index";

constexpr absl::string_view kDescriptions[] = {
    kCuSeqlens, kCuSeqlensPadded, kSequencesPerRow,     kSourceLengths,
    kSegments,  kLocalCuSeqlens,  kLocalCuSeqlensPadded};

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

int64_t SpecBytes(const v1::TensorSpec& spec) {
  int64_t bytes = ItemSize(static_cast<DType>(spec.dtype()));
  for (const int64_t dim : spec.shape()) bytes *= dim;
  return bytes;
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

class Description {
 public:
  explicit Description(std::vector<NamedTensor>& tensors) {
    for (NamedTensor& named : tensors) {
      if (IsShardDescription(named.name)) tensors_[named.name] = &named.tensor;
    }
  }

  absl::StatusOr<std::vector<int32_t>> Int32s(absl::string_view name) const {
    const auto found = tensors_.find(std::string(name));
    if (found == tensors_.end()) {
      return InvalidArgument(kProtocolError,
                             absl::StrCat("shard has no ", name));
    }
    CF_ASSIGN_OR_RETURN(const std::vector<int64_t> wide,
                        found->second->ToInt64());
    return std::vector<int32_t>(wide.begin(), wide.end());
  }

  bool Has(absl::string_view name) const {
    return tensors_.contains(std::string(name));
  }

 private:
  std::map<std::string, const Tensor*> tensors_;
};

absl::Status CheckPrefixSums(absl::string_view name,
                             const std::vector<int32_t>& sums) {
  if (!sums.empty() && sums[0] == 0 &&
      std::is_sorted(sums.begin(), sums.end())) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kProtocolError,
      absl::StrCat(name, " must start with 0 and not decrease"));
}

absl::StatusOr<ThdChunk> DecodeChunk(const v1::ShardHeader& header,
                                     const Description& description) {
  ThdChunk chunk{.total_tokens = header.total_tokens(),
                 .max_seqlen = header.max_seqlen(),
                 .max_seqlen_padded = header.max_seqlen_padded()};
  CF_ASSIGN_OR_RETURN(chunk.cu_seqlens, description.Int32s(kCuSeqlens));
  CF_ASSIGN_OR_RETURN(chunk.cu_seqlens_padded,
                      description.Int32s(kCuSeqlensPadded));
  CF_RETURN_IF_ERROR(CheckPrefixSums(kCuSeqlens, chunk.cu_seqlens));
  CF_RETURN_IF_ERROR(
      CheckPrefixSums(kCuSeqlensPadded, chunk.cu_seqlens_padded));
  CF_ASSIGN_OR_RETURN(const std::vector<int32_t> per_row,
                      description.Int32s(kSequencesPerRow));
  const auto real = Differences(chunk.cu_seqlens);
  const auto padded = Differences(chunk.cu_seqlens_padded);
  chunk.lengths.real.assign(real.begin(), real.end());
  chunk.lengths.padded.assign(padded.begin(), padded.end());
  chunk.lengths.row_splits.push_back(0);
  for (const int32_t count : per_row) {
    chunk.lengths.row_splits.push_back(chunk.lengths.row_splits.back() + count);
  }
  chunk.source = chunk.lengths.padded;
  if (description.Has(kSourceLengths)) {
    CF_ASSIGN_OR_RETURN(const std::vector<int32_t> source,
                        description.Int32s(kSourceLengths));
    chunk.source.assign(source.begin(), source.end());
  }
  if (real.size() != padded.size() || chunk.source.size() != real.size()) {
    return InvalidArgument(
        kProtocolError,
        absl::StrCat("shard has ", real.size(), " real lengths, ",
                     padded.size(), " slots and ", chunk.source.size(),
                     " source lengths; must be equal"));
  }
  for (const int64_t length : chunk.source) chunk.source_tokens += length;
  return chunk;
}

absl::StatusOr<Shard> DecodeShard(const v1::ShardHeader& header, int cp_rank,
                                  int cp_size, const Buffer& payload) {
  CF_RETURN_IF_ERROR(CheckTensorSpecs(header.tensors()).status());
  CF_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                      DecodeTensors(header.tensors(), payload));
  const Description description(tensors);
  CF_ASSIGN_OR_RETURN(ThdChunk chunk, DecodeChunk(header, description));
  CF_ASSIGN_OR_RETURN(const Sharding sharding,
                      ShardingFromProto(header.sharding()));
  CF_ASSIGN_OR_RETURN(ShardPlan plan,
                      PlanShards(chunk.lengths, sharding.layout, cp_size));
  if (plan.digest != header.plan_digest()) {
    return MakeError(
        absl::StatusCode::kDataLoss, kChecksumMismatch,
        absl::StrCat("plan digest is ", absl::Hex(plan.digest), " here and ",
                     absl::Hex(header.plan_digest()), " at the server"));
  }
  Shard shard{.cp_rank = cp_rank,
              .num_tokens = header.num_tokens(),
              .num_label_tokens = header.num_label_tokens()};
  if (plan.ranks[cp_rank].num_tokens != shard.num_tokens) {
    return InvalidArgument(
        kProtocolError,
        absl::StrCat("shard has ", shard.num_tokens, " rows; the plan gives ",
                     plan.ranks[cp_rank].num_tokens));
  }
  shard.local = ComputeLocalCuSeqlens(plan, cp_rank);
  shard.plan = std::make_shared<const ShardPlan>(std::move(plan));
  shard.chunk = std::make_shared<const ThdChunk>(std::move(chunk));
  for (NamedTensor& named : tensors) {
    if (!IsShardDescription(named.name)) {
      shard.tensors.push_back(std::move(named));
    }
  }
  return shard;
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
      if (!wanted(spec.name())) continue;
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

absl::StatusOr<StepShard> DecodeStep(const v1::StepHeader& header, int cp_size,
                                     const Buffer& payload) {
  if (header.cp_rank() < 0 || header.cp_rank() >= cp_size) {
    return InvalidArgument(kProtocolError,
                           absl::StrCat("cp_rank is ", header.cp_rank(),
                                        "; must be below cp_size = ", cp_size));
  }
  StepShard step{.num_label_tokens_global = header.num_label_tokens_global()};
  int64_t offset = 0;
  for (const v1::ShardHeader& chunk : header.chunks()) {
    CF_ASSIGN_OR_RETURN(const int64_t bytes, CheckTensorSpecs(chunk.tensors()));
    if (bytes > payload.size() - offset) {
      return InvalidArgument(kProtocolError,
                             absl::StrCat("payload has ", payload.size(),
                                          " bytes; its chunks need more"));
    }
    CF_ASSIGN_OR_RETURN(Shard shard,
                        DecodeShard(chunk, header.cp_rank(), cp_size,
                                    payload.Slice(offset, bytes)));
    step.chunks.push_back(std::move(shard));
    offset += bytes;
  }
  return step;
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
