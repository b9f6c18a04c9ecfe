#include "client/worker/step_source.h"

#include <utility>

#include "client/shard_reader.h"
#include "core/base/status_macros.h"

namespace cpfeed {

StepSource StepsOf(std::shared_ptr<ResumingReader> reader) {
  std::optional<int64_t> used;
  return [reader = std::move(reader),
          used]() mutable -> absl::StatusOr<std::optional<WorkerStep>> {
    if (used) reader->Ack(*used);
    while (true) {
      CF_ASSIGN_OR_RETURN(std::optional<ReceivedStep> received, reader->Next());
      if (!received) return std::nullopt;
      if (received->kind == ReceivedStep::Kind::kEpochEnd) continue;
      used = received->header.step();
      WorkerStep step{.step = *used, .shard = std::nullopt};
      if (received->kind == ReceivedStep::Kind::kStep) {
        step.shard = std::move(received->shard);
      }
      return step;
    }
  };
}

}  // namespace cpfeed
