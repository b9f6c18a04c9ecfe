#include "tests/bench/forked_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include "core/base/status_macros.h"

namespace cpfeed::bench {

void Pipe::Close() const {
  close(in_);
  close(out_);
}

// A few bytes at a time, which a pipe takes and gives as a whole.
void Pipe::SendBytes(const void* bytes, size_t size) const {
  CF_CHECK(write(out_, bytes, size) == static_cast<ssize_t>(size));
}

void Pipe::ReceiveBytes(void* bytes, size_t size) const {
  CF_CHECK(read(in_, bytes, size) == static_cast<ssize_t>(size));
}

ForkedProcess::ForkedProcess(
    const std::function<void(const Pipe& parent)>& body) {
  int up[2];
  int down[2];
  CF_CHECK(::pipe(up) == 0 && ::pipe(down) == 0);
  pid_ = fork();
  CF_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    close(up[0]);
    close(down[1]);
    body(Pipe(down[0], up[1]));
    _exit(0);  // Nothing of the parent's is to be destroyed here.
  }
  close(up[1]);
  close(down[0]);
  pipe_ = Pipe(up[0], down[1]);
}

ForkedProcess::~ForkedProcess() {
  int status = 0;
  CF_CHECK(waitpid(pid_, &status, 0) == pid_);
  CF_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  pipe_.Close();
}

}  // namespace cpfeed::bench
