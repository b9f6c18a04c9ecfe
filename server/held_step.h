// A published step as the server keeps it until every consumer has it.

#ifndef CPFEED_SERVER_HELD_STEP_H_
#define CPFEED_SERVER_HELD_STEP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/wire/shard_codec.h"
#include "server/step_plans.h"

namespace cpfeed {

// What a batch became, before and after it has its step number.
struct ConvertedBatch {
  std::string batch_id;
  int64_t data_epoch = 0;
  std::string producer_state;
  std::shared_ptr<const StepPlans> plans;
  std::vector<EncodedStep> ranks;  // [cp_size]; empty where it is poison.
  // Not OK: it could not be converted, and its step is a tombstone.
  absl::Status poison;
};

struct HeldStep {
  int64_t step = 0;
  std::string producer;
  int64_t sequence = 0;
  ConvertedBatch batch;
  std::string cursor;  // The serialized v1::Cursor behind this step.
  // The pass over the data that ended with the step before.
  std::optional<int64_t> ended_epoch;
};

// The message for one consumer: header completed, cursor in front of the
// payload where `with_cursor` is set.
EncodedStep MessageOf(const HeldStep& held, int cp_rank,
                      const std::vector<std::string>& tensors,
                      bool with_cursor);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_HELD_STEP_H_
