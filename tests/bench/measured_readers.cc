#include "tests/bench/measured_readers.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/session_client.h"
#include "core/base/status_macros.h"
#include "server/server.h"
#include "tests/bench/bare_stream.h"
#include "transport/channel_settings.h"

namespace cpfeed::bench {
namespace {

struct PartResult {
  double begin = 0;
  double end = 0;
  double cpu = 0;
  int64_t bytes = 0;
};

template <class Server, class Start>
std::unique_ptr<ForkedProcess> Serve(Start start) {
  return std::make_unique<ForkedProcess>([start](const Pipe& parent) {
    TuneAllocator();
    const std::unique_ptr<Server> server = start();
    parent.Send(server->port());
    parent.Receive<bool>();
  });
}

std::unique_ptr<Server> StartProduct(DeviceChoice device) {
  // Standard output is for the report.
  spdlog::set_level(spdlog::level::off);
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.shard_device.choice = device;
  // Sessions that were read hold nothing, but their budgets still count.
  options.registry.max_sessions = 1 << 20;
  options.registry.memory_budget_bytes = int64_t{1} << 50;
  auto server = Server::Start(options);
  CF_CHECK(server.ok());
  return *std::move(server);
}

// Says that it is ready, waits for the start, does `work`, says what it took.
void RunPart(const Pipe& parent, const std::function<int64_t()>& work) {
  parent.Send(true);
  parent.Receive<bool>();
  PartResult result;
  const Stopwatch watch;
  result.begin = WallSeconds();
  result.bytes = work();
  result.end = WallSeconds();
  result.cpu = watch.Elapsed().cpu;
  parent.Send(result);
}

}  // namespace

std::unique_ptr<ForkedProcess> ServeProduct(DeviceChoice device) {
  return Serve<Server>([device] { return StartProduct(device); });
}

std::unique_ptr<ForkedProcess> ServeBare() {
  return Serve<BareServer>([] { return std::make_unique<BareServer>(); });
}

std::string Address(int port) { return absl::StrCat("127.0.0.1:", port); }

Cost ReadersCost::PerGib() const {
  const double gib = static_cast<double>(bytes) / (1 << 30);
  return {.wall = wall / gib,
          .cpu = (server_cpu + reader_cpu + feeder_cpu) / gib};
}

ReadersCost MeasureReaders(pid_t server, int port, int receivers,
                           const ReadStream& read, const FeedStream& feed) {
  std::vector<std::unique_ptr<ForkedProcess>> parts;
  for (int i = 0; i < receivers; ++i) {
    parts.push_back(std::make_unique<ForkedProcess>([&](const Pipe& parent) {
      TuneAllocator();
      const auto channel = MakeChannel(Address(port));
      read(channel, i, /*warm_up=*/true);
      RunPart(parent, [&] { return read(channel, i, /*warm_up=*/false); });
    }));
  }
  if (feed) {
    parts.push_back(std::make_unique<ForkedProcess>([&](const Pipe& parent) {
      TuneAllocator();
      const auto channel = MakeChannel(Address(port));
      RunPart(parent, [&] {
        feed(channel);
        return int64_t{0};
      });
    }));
  }
  for (const auto& part : parts) part->pipe().Receive<bool>();
  const double server_cpu = CpuSeconds(server);
  for (const auto& part : parts) part->pipe().Send(true);
  ReadersCost cost;
  double begin = 1e300;
  double end = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto result = parts[i]->pipe().Receive<PartResult>();
    begin = std::min(begin, result.begin);
    end = std::max(end, result.end);
    const bool is_reader = i < static_cast<size_t>(receivers);
    (is_reader ? cost.reader_cpu : cost.feeder_cpu) += result.cpu;
    cost.bytes += result.bytes;
  }
  cost.wall = end - begin;
  cost.server_cpu = CpuSeconds(server) - server_cpu;
  return cost;
}

}  // namespace cpfeed::bench
