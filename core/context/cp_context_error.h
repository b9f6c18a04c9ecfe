// What modules and hooks throw: there is no status to return from a forward
// pass.

#ifndef CPFEED_CORE_CONTEXT_CP_CONTEXT_ERROR_H_
#define CPFEED_CORE_CONTEXT_CP_CONTEXT_ERROR_H_

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace cpfeed {

class CpContextError : public std::runtime_error {
 public:
  explicit CpContextError(absl::Status status)
      : std::runtime_error(std::string(status.message())),
        status_(std::move(status)) {}
  const absl::Status& status() const { return status_; }

 private:
  const absl::Status status_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_CP_CONTEXT_ERROR_H_
