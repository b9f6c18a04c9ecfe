// What code throws that LibTorch calls: a forward or backward pass has no
// status to return.

#ifndef CPFEED_CORE_BASE_STATUS_EXCEPTION_H_
#define CPFEED_CORE_BASE_STATUS_EXCEPTION_H_

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace cpfeed {

class StatusException : public std::runtime_error {
 public:
  explicit StatusException(absl::Status status)
      : std::runtime_error(std::string(status.message())),
        status_(std::move(status)) {}
  const absl::Status& status() const { return status_; }

 private:
  const absl::Status status_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_BASE_STATUS_EXCEPTION_H_
