#include "core/context/scope.h"

#include <atomic>
#include <utility>

#include "absl/status/status.h"

namespace cpfeed {

ScopeFactory EnterOnce(ScopeFactory factory) {
  auto entered = std::make_shared<std::atomic<bool>>(false);
  return [factory = std::move(factory),
          entered]() -> absl::StatusOr<std::unique_ptr<Scope>> {
    if (entered->exchange(true)) {
      return absl::FailedPreconditionError(
          "the context was entered before; make a new one");
    }
    return factory();
  };
}

ScopeFactory NoScope() {
  return [] { return std::make_unique<Scope>(); };
}

}  // namespace cpfeed
