// What Python holds of the core's objects.

#ifndef CPFEED_CLIENT_TORCH_OPS_HANDLES_H_
#define CPFEED_CLIENT_TORCH_OPS_HANDLES_H_

#include <torch/custom_class.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/comm/communicator.h"
#include "core/plan/shard_plan.h"

namespace cpfeed {

struct PlanHandle : torch::CustomClassHolder {
  explicit PlanHandle(std::shared_ptr<const ShardPlan> plan)
      : plan(std::move(plan)) {}
  const std::shared_ptr<const ShardPlan> plan;
};

struct GroupHandle : torch::CustomClassHolder {
  explicit GroupHandle(std::shared_ptr<Communicator> communicator)
      : communicator(std::move(communicator)) {}
  const std::shared_ptr<Communicator> communicator;
};

// Python sees a RuntimeError "[CODE REASON] message" and takes it apart.
[[noreturn]] inline void Throw(const absl::Status& status) {
  throw std::runtime_error(
      absl::StrCat("[", absl::StatusCodeToString(status.code()), " ",
                   ReasonOf(status), "] ", status.message()));
}

inline void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) Throw(status);
}

template <class T>
T ValueOrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) Throw(value.status());
  return *std::move(value);
}

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_TORCH_OPS_HANDLES_H_
