#include "core/session/session_config.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr int64_t kMostConsumers = 65536;
constexpr int64_t kMostProducers = 1024;

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t least,
                        int64_t most) {
  if (least <= value && value <= most) return absl::OkStatus();
  return InvalidField(
      field, absl::StrCat("is ", value, "; must be ", least, " to ", most));
}

absl::Status CheckProducers(const std::vector<std::string>& producers) {
  CF_RETURN_IF_ERROR(CheckRange("number of producers",
                                static_cast<int64_t>(producers.size()), 1,
                                kMostProducers));
  std::set<absl::string_view> seen;
  for (const std::string& producer : producers) {
    if (producer.empty() || producer.size() > 63) {
      return InvalidArgument(kBadOption,
                             absl::StrCat("producer id has ", producer.size(),
                                          " bytes; must be 1 to 63"));
    }
    if (!seen.insert(producer).second) {
      return InvalidArgument(
          kBadOption, absl::StrCat("producer ", producer, " is listed twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateConfig(const SessionConfig& config) {
  CF_RETURN_IF_ERROR(CheckRange("topology.cp_size", config.cp_size, 1, 4096));
  CF_RETURN_IF_ERROR(CheckRange("topology.consumers_per_cp_rank",
                                config.consumers_per_cp_rank, 1, 4096));
  CF_RETURN_IF_ERROR(
      CheckRange("number of consumers",
                 int64_t{config.cp_size} * config.consumers_per_cp_rank, 1,
                 kMostConsumers));
  CF_RETURN_IF_ERROR(CheckProducers(config.producers));
  CF_RETURN_IF_ERROR(CheckRange("delivery.max_step_skew", config.max_step_skew,
                                1, int64_t{1} << 20));
  CF_RETURN_IF_ERROR(CheckRange("delivery.max_uncommitted_steps",
                                config.max_uncommitted_steps, 1,
                                int64_t{1} << 20));
  CF_RETURN_IF_ERROR(CheckRange("limits.memory_budget_bytes",
                                config.memory_budget_bytes, 1,
                                int64_t{1} << 50));
  CF_RETURN_IF_ERROR(CheckRange("limits.max_batch_bytes",
                                config.max_batch_bytes, 1, int64_t{1} << 40));
  const auto producers = static_cast<int64_t>(config.producers.size());
  int64_t batches = producers;
  if (config.retention == Retention::kRetain) {
    batches += config.max_uncommitted_steps;
  }
  const auto needed =
      CheckedMul(batches * kCostPerPayloadByte, config.max_batch_bytes);
  if (!needed || *needed > config.memory_budget_bytes) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, kMemoryPressure,
        absl::StrCat(
            "limits.memory_budget_bytes is ", config.memory_budget_bytes,
            "; must be at least ", needed ? absl::StrCat(*needed) : "2^63",
            " = ", kCostPerPayloadByte, " * ", batches,
            " batches * limits.max_batch_bytes (", config.max_batch_bytes,
            "); give more, or a smaller max_batch_bytes"));
  }
  return absl::OkStatus();
}

}  // namespace cpfeed
