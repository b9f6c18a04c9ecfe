// What holds until it is left.

#ifndef CPFEED_CORE_CONTEXT_SCOPE_H_
#define CPFEED_CORE_CONTEXT_SCOPE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"

namespace cpfeed {

// Entered when it is made, left when it is destroyed, also by an exception. To
// be left by the thread that entered it, inner scopes first. What scopes set is
// the thread's own: threads may nest theirs beside each other.
class Scope {
 public:
  Scope() = default;
  virtual ~Scope() = default;
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

// Enters a scope.
using ScopeFactory = std::function<absl::StatusOr<std::unique_ptr<Scope>>()>;

// A factory that enters `factory`'s scope the first time and returns
// FAILED_PRECONDITION from then on.
ScopeFactory EnterOnce(ScopeFactory factory);

// A factory of a scope that changes nothing, and may be entered often.
ScopeFactory NoScope();

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_SCOPE_H_
