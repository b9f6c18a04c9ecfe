#include "core/plan/plan_cache.h"

#include <utility>

#include "core/base/digest.h"
#include "core/base/status_macros.h"
#include "core/plan/plan_verifier.h"
#include "core/plan/rank_plan.h"

namespace cpfeed {
namespace {

uint64_t KeyOf(const PackedLengths& lengths, const LayoutSpec& spec,
               int cp_size) {
  DigestBuilder builder;
  builder.UpdateInt64(
      {static_cast<int64_t>(spec.layout), spec.uneven, spec.stripe_width,
       spec.chunk_size, spec.keep_padding, spec.token_multiple,
       static_cast<int64_t>(spec.objective), spec.mask.left, spec.mask.right,
       spec.linear_cost, cp_size, lengths.num_sequences(), lengths.num_rows()});
  builder.UpdateInt64(lengths.real);
  builder.UpdateInt64(lengths.padded);
  builder.UpdateInt64(lengths.row_splits);
  return builder.Finish();
}

bool Same(const LayoutSpec& a, const LayoutSpec& b) {
  return a.layout == b.layout && a.uneven == b.uneven &&
         a.stripe_width == b.stripe_width && a.chunk_size == b.chunk_size &&
         a.keep_padding == b.keep_padding &&
         a.token_multiple == b.token_multiple && a.objective == b.objective &&
         a.mask == b.mask && a.linear_cost == b.linear_cost;
}

bool Same(const PackedLengths& a, const PackedLengths& b) {
  return a.real == b.real && a.padded == b.padded &&
         a.row_splits == b.row_splits;
}

int64_t SegmentsOf(const ShardPlan& plan) {
  int64_t segments = 0;
  for (const RankPlan& rank : plan.ranks) {
    segments += static_cast<int64_t>(rank.segments.capacity());
  }
  return segments;
}

int64_t BytesOf(const ShardPlan& plan) {
  const size_t numbers = plan.lengths.real.size() + plan.lengths.padded.size() +
                         plan.lengths.row_splits.size();
  return SegmentsOf(plan) * static_cast<int64_t>(sizeof(Segment)) +
         static_cast<int64_t>(numbers * sizeof(int64_t) +
                              plan.ranks.size() * sizeof(RankPlan));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ShardPlan>> PlanCache::Plan(
    const PackedLengths& lengths, const LayoutSpec& spec, int cp_size) {
  const uint64_t key = KeyOf(lengths, spec, cp_size);
  if (auto known = Find(key, lengths, spec, cp_size)) return known;
  CF_ASSIGN_OR_RETURN(ShardPlan made, PlanShards(lengths, spec, cp_size));
  if (SegmentsOf(made) <= options_.max_verified_segments) {
    CF_RETURN_IF_ERROR(VerifyPlan(made));
  }
  auto plan = std::make_shared<const ShardPlan>(std::move(made));
  Keep({.key = key, .spec = spec, .bytes = BytesOf(*plan), .plan = plan});
  return plan;
}

std::shared_ptr<const ShardPlan> PlanCache::Find(uint64_t key,
                                                 const PackedLengths& lengths,
                                                 const LayoutSpec& spec,
                                                 int cp_size) {
  absl::MutexLock lock(&mu_);
  const auto place = places_.find(key);
  const bool known = place != places_.end() &&
                     place->second->plan->cp_size == cp_size &&
                     Same(place->second->spec, spec) &&
                     Same(place->second->plan->lengths, lengths);
  if (!known) {
    ++counts_.misses;
    return nullptr;
  }
  ++counts_.hits;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->plan;
}

void PlanCache::Keep(Entry entry) {
  if (entry.bytes > options_.max_bytes) return;
  absl::MutexLock lock(&mu_);
  const auto place = places_.find(entry.key);
  if (place != places_.end()) {  // Made by another thread meanwhile.
    counts_.bytes -= place->second->bytes;
    entries_.erase(place->second);
    places_.erase(place);
  }
  counts_.bytes += entry.bytes;
  entries_.push_front(std::move(entry));
  places_[entries_.front().key] = entries_.begin();
  while (counts_.bytes > options_.max_bytes) {
    counts_.bytes -= entries_.back().bytes;
    places_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

PlanCache::Counts PlanCache::counts() const {
  absl::MutexLock lock(&mu_);
  return counts_;
}

}  // namespace cpfeed
