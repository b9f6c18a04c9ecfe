// Servers and readers as processes of their own, and what they need together.

#ifndef CPFEED_TESTS_BENCH_MEASURED_READERS_H_
#define CPFEED_TESTS_BENCH_MEASURED_READERS_H_

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/shard/cuda/shard_device.h"
#include "tests/bench/forked_process.h"
#include "tests/bench/measure.h"

namespace cpfeed::bench {

// A server that listens on a free port of loopback, which it sends first; it
// ends when it is sent a bool.
std::unique_ptr<ForkedProcess> ServeProduct(
    DeviceChoice device = DeviceChoice::kCpu);
std::unique_ptr<ForkedProcess> ServeBare();

std::string Address(int port);

// Reads a stream as receiver number `i`: a short one to warm up, or the one
// that counts. Returns the payload bytes.
using ReadStream = std::function<int64_t(
    const std::shared_ptr<grpc::Channel>& channel, int i, bool warm_up)>;

// Feeds the streams that count, while they are read.
using FeedStream =
    std::function<void(const std::shared_ptr<grpc::Channel>& channel)>;

struct ReadersCost {
  double wall = 0;        // Seconds from the first start to the last end.
  double server_cpu = 0;  // CPU seconds.
  double reader_cpu = 0;
  double feeder_cpu = 0;
  int64_t bytes = 0;

  // Seconds for a GiB.
  Cost PerGib() const;
};

// Starts all readers at the same moment, each a process, with the feeder beside
// them if there is one.
ReadersCost MeasureReaders(pid_t server, int port, int receivers,
                           const ReadStream& read,
                           const FeedStream& feed = nullptr);

}  // namespace cpfeed::bench

#endif  // CPFEED_TESTS_BENCH_MEASURED_READERS_H_
