#include "core/plan/shard_plan.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/check_lengths.h"
#include "core/plan/layout.h"
#include "core/plan/layouts/layout_registry.h"
#include "core/plan/layouts/layout_rule.h"
#include "core/plan/layouts/stream_dealer.h"

namespace cpfeed {
namespace {

constexpr int64_t kDigestFormat = 1;
// 1.5 GiB of them.
constexpr int64_t kMostSegments = int64_t{1} << 27;

absl::Status Deal(const DealRequest& request, std::vector<RankPlan>& ranks) {
  if (request.cp_size > 1) {
    return RuleOf(request.spec.layout).deal(request, ranks);
  }
  StreamDealer(request.lengths, ranks).Give(0, request.total_tokens);
  return absl::OkStatus();
}

// BALANCED's bound is far above what it makes: some segments a rank, and one a
// sequence.
absl::Status CheckSegments(const PackedLengths& lengths, const LayoutSpec& spec,
                           int cp_size) {
  const int64_t segments = spec.layout == Layout::kBalanced || cp_size == 1
                               ? lengths.num_sequences()
                               : MaxSegments(lengths, spec, cp_size);
  if (segments <= kMostSegments) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted, kBatchTooLarge,
      absl::StrCat("plan of ", lengths.num_sequences(), " sequences for ",
                   cp_size, " ranks may have ", segments,
                   " segments; must be at most ", kMostSegments));
}

void CountTokens(std::vector<RankPlan>& ranks) {
  for (RankPlan& rank : ranks) {
    rank.num_tokens = rank.pad_rows;
    for (const Segment& segment : rank.segments) {
      rank.num_tokens += segment.length;
    }
  }
}

// Feeds segments to the digest a block at a time.
void DigestSegments(absl::Span<const Segment> segments,
                    DigestBuilder& builder) {
  constexpr size_t kBlock = 512;
  std::array<int64_t, 3 * kBlock> numbers;
  while (!segments.empty()) {
    const auto block = segments.first(std::min(kBlock, segments.size()));
    size_t size = 0;
    for (const Segment& segment : block) {
      numbers[size++] = segment.sequence;
      numbers[size++] = segment.begin;
      numbers[size++] = segment.length;
    }
    builder.UpdateInt64(absl::MakeConstSpan(numbers.data(), size));
    segments.remove_prefix(block.size());
  }
}

}  // namespace

absl::StatusOr<ShardPlan> PlanShards(const PackedLengths& lengths,
                                     const LayoutSpec& spec, int cp_size) {
  ShardPlan plan;
  plan.spec = ResolveLayout(spec, /*has_lengths=*/true);
  plan.cp_size = cp_size;
  CF_RETURN_IF_ERROR(CheckLayoutSpec(plan.spec, cp_size));
  plan.spec.objective = ResolveObjective(plan.spec.objective, cp_size);
  CF_ASSIGN_OR_RETURN(const int64_t total_tokens, CheckLengths(lengths));
  CF_RETURN_IF_ERROR(CheckDivisible(lengths, plan.spec, cp_size));
  CF_RETURN_IF_ERROR(CheckSegments(lengths, plan.spec, cp_size));
  plan.lengths = lengths;
  plan.ranks.resize(cp_size);
  CF_RETURN_IF_ERROR(Deal({.lengths = lengths,
                           .total_tokens = total_tokens,
                           .spec = plan.spec,
                           .cp_size = cp_size},
                          plan.ranks));
  CountTokens(plan.ranks);
  plan.digest = PlanDigest(plan);
  return plan;
}

int64_t MaxSegments(const PackedLengths& lengths, const LayoutSpec& spec,
                    int cp_size) {
  const int64_t total =
      std::accumulate(lengths.padded.begin(), lengths.padded.end(), int64_t{0});
  const LayoutSpec resolved = ResolveLayout(spec, /*has_lengths=*/true);
  const int64_t cuts = RuleOf(resolved.layout)
                           .max_cuts({.lengths = lengths,
                                      .total_tokens = total,
                                      .spec = resolved,
                                      .cp_size = cp_size});
  return std::min(total, lengths.num_sequences() + cuts);
}

uint64_t PlanDigest(const ShardPlan& plan) {
  DigestBuilder builder;
  std::vector<int64_t> head = {kDigestFormat,
                               static_cast<int64_t>(plan.spec.layout)};
  for (const LayoutParameter& parameter : RuleOf(plan.spec.layout).parameters) {
    head.push_back(parameter.value(plan.spec));
  }
  head.push_back(plan.cp_size);
  head.push_back(plan.lengths.num_sequences());
  builder.UpdateInt64(head);
  builder.UpdateInt64(plan.lengths.real);
  builder.UpdateInt64(plan.lengths.padded);
  for (const RankPlan& rank : plan.ranks) {
    builder.UpdateInt64({static_cast<int64_t>(rank.segments.size())});
    DigestSegments(rank.segments, builder);
  }
  return builder.Finish();
}

std::vector<int32_t> LocalIndex(const ShardPlan& plan, int cp_rank) {
  const RankPlan& rank = plan.ranks[cp_rank];
  std::vector<int32_t> index(rank.num_tokens, -1);
  auto row = index.begin();
  int64_t sequence = 0;
  int32_t slot_begin = 0;
  for (const Segment& segment : rank.segments) {
    for (; sequence < segment.sequence; ++sequence) {
      slot_begin += static_cast<int32_t>(plan.lengths.padded[sequence]);
    }
    std::iota(row, row + segment.length, slot_begin + segment.begin);
    row += segment.length;
  }
  return index;
}

LocalCuSeqlens ComputeLocalCuSeqlens(const ShardPlan& plan, int cp_rank) {
  const int64_t num_sequences = plan.lengths.num_sequences();
  LocalCuSeqlens local;
  local.cu_seqlens.resize(num_sequences + 1);
  local.cu_seqlens_padded.resize(num_sequences + 1);
  const std::vector<Segment>& segments = plan.ranks[cp_rank].segments;
  auto segment = segments.begin();
  int32_t real_rows = 0;
  int32_t rows = 0;
  for (int64_t s = 0; s < num_sequences; ++s) {
    for (; segment != segments.end() && segment->sequence == s; ++segment) {
      rows += segment->length;
      real_rows += static_cast<int32_t>(std::clamp<int64_t>(
          plan.lengths.real[s] - segment->begin, 0, segment->length));
    }
    local.cu_seqlens[s + 1] = real_rows;
    local.cu_seqlens_padded[s + 1] = rows;
  }
  return local;
}

}  // namespace cpfeed
