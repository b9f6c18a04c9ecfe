// Reads steps back, and trusts nothing in them.

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/check_lengths.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/wire/shard_codec.h"
#include "core/wire/shard_tensors.h"
#include "core/wire/sharding_codec.h"
#include "core/wire/tensor_codec.h"

namespace cpfeed {
namespace {

absl::Status Unfit(absl::string_view message) {
  return InvalidArgument(kProtocolError, message);
}

// The tensors that describe a shard, by name.
class Description {
 public:
  explicit Description(const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& named : tensors) {
      if (IsShardDescription(named.name)) tensors_[named.name] = &named.tensor;
    }
  }

  bool Has(absl::string_view name) const {
    return tensors_.contains(std::string(name));
  }

  // The elements of an int32 tensor of `inner` behind its first axis.
  absl::StatusOr<std::vector<int32_t>> Int32s(absl::string_view name,
                                              const Shape& inner = {}) const {
    const auto found = tensors_.find(std::string(name));
    if (found == tensors_.end()) {
      return Unfit(absl::StrCat("shard has no ", name));
    }
    const Tensor& tensor = *found->second;
    if (tensor.dtype != DType::kInt32 || tensor.shape.empty() ||
        Shape(tensor.shape.begin() + 1, tensor.shape.end()) != inner) {
      return Unfit(absl::StrCat(name, " has shape ", ShapeString(tensor.shape),
                                " of ", DTypeName(tensor.dtype),
                                "; must be a list of int32",
                                inner.empty() ? "" : " triples"));
    }
    std::vector<int32_t> values(tensor.bytes.size() / sizeof(int32_t));
    tensor.bytes.CopyTo(values.data());
    return values;
  }

 private:
  std::map<std::string, const Tensor*> tensors_;
};

// The lengths of which `sums` are the prefix sums.
absl::StatusOr<std::vector<int64_t>> LengthsOf(
    absl::string_view name, const std::vector<int32_t>& sums) {
  if (sums.empty() || sums[0] != 0 ||
      !std::is_sorted(sums.begin(), sums.end())) {
    return Unfit(absl::StrCat(name, " must start with 0 and not decrease"));
  }
  std::vector<int64_t> lengths;
  lengths.reserve(sums.size() - 1);
  for (size_t i = 1; i < sums.size(); ++i) {
    lengths.push_back(sums[i] - sums[i - 1]);
  }
  return lengths;
}

int32_t Widest(const std::vector<int64_t>& lengths) {
  if (lengths.empty()) return 0;
  return static_cast<int32_t>(
      *std::max_element(lengths.begin(), lengths.end()));
}

absl::Status CheckEqual(absl::string_view what, int64_t given, int64_t right) {
  if (given == right) return absl::OkStatus();
  return Unfit(absl::StrCat(what, " is ", given, "; must be ", right));
}

// How much of each slot comes from the input: all, where nothing is said.
absl::Status TakeSource(const Description& description, ThdChunk& chunk) {
  chunk.source = chunk.lengths.padded;
  if (description.Has(kSourceLengths)) {
    CF_ASSIGN_OR_RETURN(const std::vector<int32_t> source,
                        description.Int32s(kSourceLengths));
    CF_RETURN_IF_ERROR(CheckEqual("number of source_lengths",
                                  static_cast<int64_t>(source.size()),
                                  chunk.lengths.num_sequences()));
    chunk.source.assign(source.begin(), source.end());
  }
  for (size_t i = 0; i < chunk.source.size(); ++i) {
    if (chunk.source[i] < 0 || chunk.source[i] > chunk.lengths.padded[i]) {
      return Unfit(absl::StrCat("sequence ", i, ": source length is ",
                                chunk.source[i], "; must be 0 to its slot, ",
                                chunk.lengths.padded[i]));
    }
    chunk.source_tokens += chunk.source[i];
  }
  return absl::OkStatus();
}

// The lengths keep the rules of PackedLengths.
absl::StatusOr<ThdChunk> DecodeChunk(const v1::ShardHeader& header,
                                     const Description& description) {
  ThdChunk chunk{.total_tokens = header.total_tokens(),
                 .max_seqlen = header.max_seqlen(),
                 .max_seqlen_padded = header.max_seqlen_padded()};
  CF_ASSIGN_OR_RETURN(chunk.cu_seqlens, description.Int32s(kCuSeqlens));
  CF_ASSIGN_OR_RETURN(chunk.cu_seqlens_padded,
                      description.Int32s(kCuSeqlensPadded));
  CF_ASSIGN_OR_RETURN(chunk.lengths.real,
                      LengthsOf(kCuSeqlens, chunk.cu_seqlens));
  CF_ASSIGN_OR_RETURN(chunk.lengths.padded,
                      LengthsOf(kCuSeqlensPadded, chunk.cu_seqlens_padded));
  CF_ASSIGN_OR_RETURN(const std::vector<int32_t> per_row,
                      description.Int32s(kSequencesPerRow));
  chunk.lengths.row_splits.push_back(0);
  for (const int32_t count : per_row) {
    chunk.lengths.row_splits.push_back(chunk.lengths.row_splits.back() + count);
  }
  CF_ASSIGN_OR_RETURN(const int64_t total, CheckLengths(chunk.lengths));
  CF_RETURN_IF_ERROR(CheckEqual("total_tokens", chunk.total_tokens, total));
  CF_RETURN_IF_ERROR(
      CheckEqual("max_seqlen", chunk.max_seqlen, Widest(chunk.lengths.real)));
  CF_RETURN_IF_ERROR(CheckEqual("max_seqlen_padded", chunk.max_seqlen_padded,
                                Widest(chunk.lengths.padded)));
  CF_RETURN_IF_ERROR(TakeSource(description, chunk));
  return chunk;
}

// No plan of these lengths has more segments.
int64_t MostSegments(const PackedLengths& lengths, const LayoutSpec& spec,
                     int cp_size) {
  const int64_t most = MaxSegments(lengths, spec, cp_size);
  if (spec.layout != Layout::kBalanced || spec.keep_padding) return most;
  // Slot padding, of which nothing travels, has none.
  return std::min(most, std::accumulate(lengths.real.begin(),
                                        lengths.real.end(), int64_t{0}));
}

// A few bytes may claim tokens by the billion. Every row of a rank has at least
// a byte in the payload, if only in its mask, and ranks have equally many rows;
// the constant is for shards of which next to nothing was asked.
absl::Status CheckClaims(const v1::ShardHeader& header,
                         const PackedLengths& lengths, const LayoutSpec& spec,
                         int cp_size, int64_t payload_bytes) {
  constexpr int64_t kAlwaysAllowed = 1 << 20;
  const auto check = [&](absl::string_view what, int64_t claimed,
                         int64_t most) {
    if (claimed <= std::max(kAlwaysAllowed, most)) return absl::OkStatus();
    return Unfit(absl::StrCat(what, " ", claimed, "; must be at most ",
                              std::max(kAlwaysAllowed, most),
                              " for a payload of ", payload_bytes, " bytes"));
  };
  CF_RETURN_IF_ERROR(
      check("num_tokens is", header.num_tokens(), payload_bytes));
  return check("number of the plan's segments may be",
               MostSegments(lengths, spec, cp_size), cp_size * payload_bytes);
}

absl::StatusOr<ShardPlan> PlanAgain(const v1::ShardHeader& header,
                                    const PackedLengths& lengths, int cp_size,
                                    int64_t payload_bytes) {
  CF_ASSIGN_OR_RETURN(const Sharding sharding,
                      ShardingFromProto(header.sharding()));
  CF_RETURN_IF_ERROR(CheckLayoutSpec(sharding.layout, cp_size));
  CF_RETURN_IF_ERROR(
      CheckClaims(header, lengths, sharding.layout, cp_size, payload_bytes));
  CF_ASSIGN_OR_RETURN(ShardPlan plan,
                      PlanShards(lengths, sharding.layout, cp_size));
  if (plan.digest == header.plan_digest()) return plan;
  return MakeError(
      absl::StatusCode::kDataLoss, kChecksumMismatch,
      absl::StrCat("plan digest is ", absl::Hex(plan.digest), " here and ",
                   absl::Hex(header.plan_digest()), " at the server"));
}

// Readers in other languages take these as they are.
absl::Status CheckDescription(const Description& description,
                              const Shard& shard) {
  const std::vector<Segment>& segments =
      shard.plan->ranks[shard.cp_rank].segments;
  CF_ASSIGN_OR_RETURN(const std::vector<int32_t> given,
                      description.Int32s(kSegments, {3}));
  if (given.size() != 3 * segments.size() ||
      (!given.empty() && std::memcmp(given.data(), segments.data(),
                                     given.size() * sizeof(int32_t)) != 0)) {
    return Unfit("segments are not those of the plan");
  }
  CF_ASSIGN_OR_RETURN(const std::vector<int32_t> sums,
                      description.Int32s(kLocalCuSeqlens));
  CF_ASSIGN_OR_RETURN(const std::vector<int32_t> sums_padded,
                      description.Int32s(kLocalCuSeqlensPadded));
  if (sums != shard.local.cu_seqlens ||
      sums_padded != shard.local.cu_seqlens_padded) {
    return Unfit("local_cu_seqlens are not those of the plan");
  }
  return absl::OkStatus();
}

// CheckTensorSpecs has seen that token_axis is one of the axes.
absl::Status CheckTokenTensor(const NamedTensor& named, int64_t num_tokens) {
  const Shape& shape = named.tensor.shape;
  if (!shape.empty() && shape[named.token_axis] == num_tokens) {
    return absl::OkStatus();
  }
  return Unfit(absl::StrCat(named.name, " has shape ", ShapeString(shape),
                            "; must have the ", num_tokens,
                            " local rows on axis ", named.token_axis));
}

absl::StatusOr<Shard> DecodeShard(const v1::ShardHeader& header, int cp_rank,
                                  int cp_size, const Buffer& payload,
                                  Checksums checksums) {
  CF_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                      DecodeTensors(header.tensors(), payload, checksums));
  const Description description(tensors);
  CF_ASSIGN_OR_RETURN(ThdChunk chunk, DecodeChunk(header, description));
  CF_ASSIGN_OR_RETURN(ShardPlan plan, PlanAgain(header, chunk.lengths, cp_size,
                                                payload.size()));
  Shard shard{.cp_rank = cp_rank,
              .num_tokens = header.num_tokens(),
              .num_label_tokens = header.num_label_tokens()};
  CF_RETURN_IF_ERROR(CheckEqual("num_tokens", shard.num_tokens,
                                plan.ranks[cp_rank].num_tokens));
  shard.local = ComputeLocalCuSeqlens(plan, cp_rank);
  shard.plan = std::make_shared<const ShardPlan>(std::move(plan));
  shard.chunk = std::make_shared<const ThdChunk>(std::move(chunk));
  CF_RETURN_IF_ERROR(CheckDescription(description, shard));
  for (NamedTensor& named : tensors) {
    if (IsShardDescription(named.name)) continue;
    CF_RETURN_IF_ERROR(CheckTokenTensor(named, shard.num_tokens));
    shard.tensors.push_back(std::move(named));
  }
  return shard;
}

}  // namespace

absl::StatusOr<StepShard> DecodeStep(const v1::StepHeader& header, int cp_size,
                                     const Buffer& payload,
                                     Checksums checksums) {
  if (header.cp_rank() < 0 || header.cp_rank() >= cp_size) {
    return Unfit(absl::StrCat("cp_rank is ", header.cp_rank(),
                              "; must be below cp_size = ", cp_size));
  }
  if (header.chunks().empty() || header.chunks_size() > kMaxChunks) {
    return Unfit(absl::StrCat("step has ", header.chunks_size(),
                              " chunks; must have 1 to ", kMaxChunks));
  }
  StepShard step{.num_label_tokens_global = header.num_label_tokens_global()};
  int64_t offset = 0;
  for (const v1::ShardHeader& chunk : header.chunks()) {
    const std::string place = absl::StrCat("chunk ", step.chunks.size());
    const absl::StatusOr<int64_t> bytes =
        CheckTensorSpecs(chunk.tensors(), kMaxShardTensors);
    if (!bytes.ok()) return Annotate(bytes.status(), place);
    if (*bytes > payload.size() - offset) {
      return Unfit(absl::StrCat(place, " has ", *bytes, " bytes; only ",
                                payload.size() - offset,
                                " of the payload are left"));
    }
    absl::StatusOr<Shard> shard =
        DecodeShard(chunk, header.cp_rank(), cp_size,
                    payload.Slice(offset, *bytes), checksums);
    if (!shard.ok()) return Annotate(shard.status(), place);
    step.chunks.push_back(*std::move(shard));
    offset += *bytes;
  }
  CF_RETURN_IF_ERROR(CheckEqual("payload size", payload.size(), offset));
  return step;
}

}  // namespace cpfeed
