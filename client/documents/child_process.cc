#include "client/documents/child_process.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

extern char** environ;

namespace cpfeed {

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& args) {
  CF_CHECK(!args.empty());
  std::array<int, 2> fds;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket");
  }
  const auto [ours, theirs] = fds;
  const auto close_theirs = absl::MakeCleanup([fd = theirs] { close(fd); });
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const auto destroy = absl::MakeCleanup(
      [&actions] { posix_spawn_file_actions_destroy(&actions); });
  posix_spawn_file_actions_adddup2(&actions, theirs, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs, STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& arg : args) {
    argv.push_back(const_cast<char*>(arg.c_str()));
  }
  argv.push_back(nullptr);
  pid_t pid;
  const int error =
      posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  if (error != 0) {
    close(ours);
    return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", args[0]));
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(args[0], pid, ours));
}

ChildProcess::~ChildProcess() {
  close(fd_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::Status ChildProcess::Ended(absl::string_view while_doing) const {
  return absl::UnavailableError(
      absl::StrCat(name_, " (process ", pid_, ") ended ", while_doing));
}

absl::Status ChildProcess::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return Ended("before it took what was sent to it");
    bytes.remove_prefix(size);
  }
  return absl::OkStatus();
}

absl::Status ChildProcess::Read(void* to, int64_t size) {
  char* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = recv(fd_, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Ended("before it answered");
    at += got;
    size -= got;
  }
  return absl::OkStatus();
}

}  // namespace cpfeed
