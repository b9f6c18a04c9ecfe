#include "server/batch_converter.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "core/shard/prepare_batch.h"
#include "server/step_plans.h"

namespace cpfeed {
namespace {

// Tells afterwards which fragments of a payload are still in use.
class PayloadWatch {
 public:
  explicit PayloadWatch(const Buffer& payload) {
    for (const Buffer::Fragment& fragment : payload.fragments()) {
      fragments_.push_back({fragment.owner, fragment.size});
    }
  }

  int64_t UsedBytes() const {
    int64_t bytes = 0;
    for (const auto& [owner, size] : fragments_) {
      if (!owner.expired()) bytes += size;
    }
    return bytes;
  }

 private:
  std::vector<std::pair<std::weak_ptr<const void>, int64_t>> fragments_;
};

absl::StatusOr<std::vector<EncodedStep>> CutAndEncode(
    const PreparedBatch& prepared, const ShardExecutor& executor) {
  CF_ASSIGN_OR_RETURN(const std::vector<StepShard> shards,
                      executor.Execute(prepared.thd, prepared.plans));
  std::vector<EncodedStep> steps;
  steps.reserve(shards.size());
  for (size_t rank = 0; rank < shards.size(); ++rank) {
    steps.push_back(EncodeStep(shards[rank], static_cast<int>(rank)));
    CF_RETURN_IF_ERROR(CheckStepHeader(steps.back().header));
  }
  return steps;
}

BatchFacts FactsOf(const StepPlans& plans) {
  BatchFacts facts;
  for (const ChunkPlan& chunk : plans.chunks()) {
    for (int64_t i = 0; i < chunk.lengths.num_sequences(); ++i) {
      facts.real_tokens += chunk.lengths.real[i];
      facts.padding_tokens += chunk.lengths.padded[i] - chunk.lengths.real[i];
    }
    facts.area_imbalance = std::max(facts.area_imbalance, chunk.area_imbalance);
  }
  return facts;
}

}  // namespace

absl::StatusOr<Conversion> ConvertBatch(WireBatch wire_batch, Buffer payload,
                                        const Sharding& sharding, int cp_size,
                                        const ConversionBackend& backend,
                                        const ChargeMemory& charge) {
  Conversion conversion;
  conversion.batch.producer_state = std::move(wire_batch.producer_state);
  absl::Time begin = absl::Now();
  absl::Duration waited;
  const auto charge_timed = [&](int64_t bytes) {
    const absl::Time asked = absl::Now();
    const absl::Status status = charge(bytes);
    waited += absl::Now() - asked;
    return status;
  };
  {
    CF_ASSIGN_OR_RETURN(
        const PreparedBatch prepared,
        PrepareBatch(
            wire_batch.batch, sharding.options, sharding.layout, cp_size,
            [&](int64_t bytes) { return charge_timed(payload.size() + bytes); },
            &backend.plans));
    const absl::Duration planning = absl::Now() - begin - waited;
    conversion.batch.plans =
        std::make_shared<const StepPlans>(DescribePlans(prepared), cp_size);
    conversion.facts = FactsOf(*conversion.batch.plans);
    conversion.facts.planning = planning;
    CF_RETURN_IF_ERROR(
        charge(payload.size() + prepared.ShardBytes() + prepared.PlanBytes()));
    begin = absl::Now();
    CF_ASSIGN_OR_RETURN(conversion.batch.ranks,
                        CutAndEncode(prepared, backend.executor));
    conversion.facts.sharding = absl::Now() - begin;
  }
  const PayloadWatch watch(payload);
  wire_batch.batch = PackedBatch();
  payload = Buffer();
  conversion.cost_bytes = watch.UsedBytes();
  for (const EncodedStep& rank : conversion.batch.ranks) {
    conversion.cost_bytes += rank.payload.size();
  }
  return conversion;
}

}  // namespace cpfeed
