// Processes of a benchmark and how they talk.

#ifndef CPFEED_TESTS_BENCH_FORKED_PROCESS_H_
#define CPFEED_TESTS_BENCH_FORKED_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <type_traits>

namespace cpfeed::bench {

// One end of two pipes. Ends the process where the other end is gone: a
// benchmark that lost a part has no result.
class Pipe {
 public:
  Pipe(int in, int out) : in_(in), out_(out) {}

  template <class T>
  void Send(const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    SendBytes(&value, sizeof value);
  }

  template <class T>
  T Receive() const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    ReceiveBytes(&value, sizeof value);
    return value;
  }

  void Close() const;

 private:
  void SendBytes(const void* bytes, size_t size) const;
  void ReceiveBytes(void* bytes, size_t size) const;

  int in_;
  int out_;
};

// A child that runs `body` and exits. The parent has one thread, so it must
// not have used gRPC.
class ForkedProcess {
 public:
  explicit ForkedProcess(const std::function<void(const Pipe& parent)>& body);

  // Waits until the child has exited, and checks that it did so in peace.
  ~ForkedProcess();
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;

  pid_t pid() const { return pid_; }
  const Pipe& pipe() const { return pipe_; }

 private:
  Pipe pipe_{-1, -1};
  pid_t pid_ = 0;
};

}  // namespace cpfeed::bench

#endif  // CPFEED_TESTS_BENCH_FORKED_PROCESS_H_
