// load_bench: many consumers on one server. One session with 256 consumers, and
// 64 sessions with 8: how long a step takes to all of its consumers, what
// memory the server needs, and whether sessions get the same. One JSON line.
//
// A closed loop: a loader puts the next step when all consumers of its session
// have the one before. So a latency is of delivery alone, and a session that is
// served less does fewer steps.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/feeder.h"
#include "client/session_client.h"
#include "client/shard_reader.h"
#include "core/base/status_macros.h"
#include "cpfeed/v1/session.pb.h"
#include "tests/bench/document_batch.h"
#include "tests/bench/forked_process.h"
#include "tests/bench/measure.h"
#include "tests/bench/measured_readers.h"

ABSL_FLAG(bool, smoke, false, "Sizes that only show that it runs.");
ABSL_FLAG(double, seconds, 20, "How long each case is measured.");

namespace cpfeed::bench {
namespace {

constexpr int64_t kTokens = 8192;
constexpr int64_t kMeanDocument = 600;
constexpr int64_t kBatchBytes = 1 << 20;

struct Case {
  const char* name;
  int num_sessions;
  int cp_size;
  int consumers_per_cp_rank;

  int consumers() const { return cp_size * consumers_per_cp_rank; }
};

// Lets the loader of one session wait for all its consumers.
class Gate {
 public:
  explicit Gate(int count) : count_(count) {}

  void Arrive() {
    absl::MutexLock lock(&mu_);
    ++arrived_;
  }

  void WaitForAll() {
    const auto all = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return arrived_ == count_;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&all));
    arrived_ = 0;
  }

 private:
  const int count_;
  absl::Mutex mu_;
  int arrived_ ABSL_GUARDED_BY(mu_) = 0;
};

class LoadedSession {
 public:
  LoadedSession(std::shared_ptr<grpc::Channel> channel, std::string id,
                const Case& load)
      : channel_(std::move(channel)),
        id_(std::move(id)),
        load_(load),
        attached_(load.consumers()),
        received_(load.consumers()) {
    v1::CreateSessionRequest request;
    request.set_session_id(id_);
    v1::Session& session = *request.mutable_session();
    session.mutable_topology()->set_cp_size(load.cp_size);
    session.mutable_topology()->set_consumers_per_cp_rank(
        load.consumers_per_cp_rank);
    session.mutable_limits()->set_max_batch_bytes(kBatchBytes);
    session.mutable_limits()->set_memory_budget_bytes(16 * kBatchBytes);
    CF_CHECK(CreateSession(channel_, request).ok());
    for (int i = 0; i < load.consumers(); ++i) {
      threads_.emplace_back([this, i] { Consume(i); });
    }
  }

  void WaitUntilAttached() { attached_.WaitForAll(); }

  void Start(double until) {
    threads_.emplace_back([this, until] { Feed(until); });
  }

  // Seconds from the beginning of a Put to the last consumer's step.
  std::vector<double> Finish() {
    for (std::thread& thread : threads_) thread.join();
    CF_CHECK(DeleteSession(channel_, Name(), /*force=*/false).ok());
    return std::move(latencies_);
  }

 private:
  std::string Name() const { return absl::StrCat("sessions/", id_); }

  void Consume(int number) {
    auto reader = ShardReader::Attach(
        channel_, {.session = Name(),
                   .cp_rank = number / load_.consumers_per_cp_rank,
                   .consumer = number % load_.consumers_per_cp_rank});
    CF_CHECK(reader.ok());
    attached_.Arrive();
    while (true) {
      const auto step = (*reader)->Next();
      CF_CHECK(step.ok());
      if (!step->has_value()) return;
      CF_CHECK((*reader)->Ack((*step)->header.step()).ok());
      received_.Arrive();
    }
  }

  void Feed(double until) {
    auto feeder = Feeder::Open(channel_, {.session = Name()});
    CF_CHECK(feeder.ok());
    const PackedBatch batch =
        MakeDocumentBatch(kTokens, kMeanDocument, int64_t{2} * load_.cp_size);
    while (WallSeconds() < until) {
      const double begin = WallSeconds();
      CF_CHECK((*feeder)->Put(batch, {}).ok());
      received_.WaitForAll();
      latencies_.push_back(WallSeconds() - begin);
    }
    CF_CHECK((*feeder)->Finish().ok());
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::string id_;
  const Case load_;
  Gate attached_;
  Gate received_;
  std::vector<double> latencies_;
  std::vector<std::thread> threads_;
};

// The most bytes that a process had resident, and has now.
int64_t ResidentBytes(pid_t pid, const std::string& field) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string word;
  while (status >> word) {
    int64_t kibibytes = 0;
    if (word == field && status >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

double Quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<size_t>(q * (sorted.size() - 1))];
}

nlohmann::json Measure(const Case& load, double seconds) {
  const auto server = ServeProduct();
  const int port = server->pipe().Receive<int>();
  nlohmann::json report;
  {
    // gRPC is used in a child alone, so that further cases can fork.
    const ForkedProcess clients([&](const Pipe& parent) {
      const auto channel = MakeChannel(Address(port));
      std::vector<std::unique_ptr<LoadedSession>> sessions;
      for (int i = 0; i < load.num_sessions; ++i) {
        sessions.push_back(std::make_unique<LoadedSession>(
            channel, absl::StrCat("s", i), load));
      }
      for (auto& session : sessions) session->WaitUntilAttached();
      const double until = WallSeconds() + seconds;
      for (auto& session : sessions) session->Start(until);
      for (auto& session : sessions) {
        const std::vector<double> latencies = session->Finish();
        parent.Send(static_cast<int64_t>(latencies.size()));
        for (const double latency : latencies) parent.Send(latency);
      }
    });
    std::vector<double> all;
    std::vector<int64_t> steps;
    for (int i = 0; i < load.num_sessions; ++i) {
      steps.push_back(clients.pipe().Receive<int64_t>());
      for (int64_t j = 0; j < steps.back(); ++j) {
        all.push_back(clients.pipe().Receive<double>());
      }
    }
    std::sort(all.begin(), all.end());
    const auto [least, most] = std::minmax_element(steps.begin(), steps.end());
    report = {
        {"case", load.name},
        {"sessions", load.num_sessions},
        {"consumers_per_session", load.consumers()},
        {"steps", all.size()},
        {"steps_per_s", static_cast<double>(all.size()) / seconds},
        {"latency_ms_p50", 1e3 * Quantile(all, 0.5)},
        {"latency_ms_p99", 1e3 * Quantile(all, 0.99)},
        {"fewest_over_most_steps", static_cast<double>(*least) / *most},
        {"server_cpu_s_per_step",
         CpuSeconds(server->pid()) / static_cast<double>(all.size())},
        {"server_most_resident_bytes", ResidentBytes(server->pid(), "VmHWM:")}};
  }
  server->pipe().Send(true);
  return report;
}

int Main() {
  const bool smoke = absl::GetFlag(FLAGS_smoke);
  const double seconds = smoke ? 0.2 : absl::GetFlag(FLAGS_seconds);
  const std::vector<Case> cases =
      smoke ? std::vector<Case>{{"one", 1, 4, 2}, {"many", 4, 2, 1}}
            : std::vector<Case>{{"one", 1, 32, 8}, {"many", 64, 8, 1}};
  nlohmann::json report = {
      {"bench", "load"}, {"tokens", kTokens}, {"seconds", seconds}};
  for (const Case& load : cases) {
    report["cases"].push_back(Measure(load, seconds));
  }
  std::cout << report.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace cpfeed::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("load_bench: many consumers on one server");
  absl::ParseCommandLine(argc, argv);
  return cpfeed::bench::Main();
}
