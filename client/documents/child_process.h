// A program that is talked to over a socket.

#ifndef CPFEED_CLIENT_DOCUMENTS_CHILD_PROCESS_H_
#define CPFEED_CLIENT_DOCUMENTS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

// Runs until this is destroyed, which closes the socket and waits for the
// program's end. Not thread-safe.
class ChildProcess {
 public:
  // Starts `args[0]`, a path or a name in PATH, with one socket as its standard
  // input and output. Its standard error is ours.
  //
  // Errors:
  //   NOT_FOUND, ...  What the operating system says.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& args);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Errors:
  //   UNAVAILABLE  The program has ended, or closed the socket.
  absl::Status Write(absl::string_view bytes);

  // Waits for just `size` bytes. Errors: as Write.
  absl::Status Read(void* to, int64_t size);

 private:
  ChildProcess(std::string name, pid_t pid, int fd)
      : name_(std::move(name)), pid_(pid), fd_(fd) {}

  absl::Status Ended(absl::string_view while_doing) const;

  std::string name_;
  pid_t pid_;
  int fd_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_DOCUMENTS_CHILD_PROCESS_H_
