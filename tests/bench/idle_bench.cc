// idle_bench: a unary call after a pause, as after a training step: GetSession
// of the product, and a bare gRPC ping in the same pauses. One JSON line.
//
// Pollers that sleep when nothing happens for a second show here.

#include <time.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "client/session_client.h"
#include "core/base/status_macros.h"
#include "cpfeed/v1/session.pb.h"
#include "tests/bench/bare_stream.h"
#include "tests/bench/forked_process.h"
#include "tests/bench/measure.h"
#include "tests/bench/measured_readers.h"

ABSL_FLAG(bool, smoke, false, "Sizes that only show that it runs.");
ABSL_FLAG(int, calls, 100, "How often each is called, about once a second.");

namespace cpfeed::bench {
namespace {

struct Latencies {
  double product = 0;  // Seconds.
  double bare = 0;
};

void Sleep(double seconds) {
  const double whole = std::floor(seconds);
  const timespec time{static_cast<time_t>(whole),
                      static_cast<long>((seconds - whole) * 1e9)};
  CF_CHECK(nanosleep(&time, nullptr) == 0);
}

template <class Call>
double SecondsOf(const Call& call) {
  const double begin = WallSeconds();
  call();
  return WallSeconds() - begin;
}

// Calls both after pauses of 1.0 to 1.1 of `unit` seconds; who is first, and
// wakes the machine up, changes.
void CallAfterPauses(int product_port, int bare_port, int calls, double unit,
                     const Pipe& parent) {
  const auto product = MakeChannel(Address(product_port));
  const auto bare = MakeChannel(Address(bare_port));
  v1::CreateSessionRequest request;
  request.set_session_id("idle");
  request.mutable_session()->mutable_topology()->set_cp_size(1);
  CF_CHECK(CreateSession(product, request).ok());
  PingBare(bare);
  const auto call_product = [&] {
    CF_CHECK(GetSession(product, "sessions/idle").ok());
  };
  const auto call_bare = [&] { PingBare(bare); };
  std::mt19937 random(1);
  std::uniform_real_distribution<double> pause(unit, 1.1 * unit);
  for (int i = 0; i < calls; ++i) {
    Latencies latencies;
    Sleep(pause(random));
    if (i % 2 == 0) latencies.product = SecondsOf(call_product);
    latencies.bare = SecondsOf(call_bare);
    if (i % 2 == 1) latencies.product = SecondsOf(call_product);
    parent.Send(latencies);
  }
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q *
                                    static_cast<double>(values.size() - 1))];
}

int Main() {
  const bool smoke = absl::GetFlag(FLAGS_smoke);
  const int calls = smoke ? 4 : absl::GetFlag(FLAGS_calls);
  const auto product = ServeProduct();
  const auto bare = ServeBare();
  const int product_port = product->pipe().Receive<int>();
  const int bare_port = bare->pipe().Receive<int>();
  std::vector<double> product_seconds;
  std::vector<double> bare_seconds;
  {
    const ForkedProcess client([&](const Pipe& parent) {
      CallAfterPauses(product_port, bare_port, calls, smoke ? 0.01 : 1, parent);
    });
    for (int i = 0; i < calls; ++i) {
      const auto latencies = client.pipe().Receive<Latencies>();
      product_seconds.push_back(latencies.product);
      bare_seconds.push_back(latencies.bare);
    }
  }
  product->pipe().Send(true);
  bare->pipe().Send(true);
  nlohmann::json report = {{"bench", "idle"}, {"calls", calls}};
  for (const auto& [name, q] :
       {std::pair("p50", 0.5), std::pair("p99", 0.99)}) {
    const double ours = Quantile(product_seconds, q);
    const double theirs = Quantile(bare_seconds, q);
    report[name] = {{"ms", 1e3 * ours},
                    {"bare_ms", 1e3 * theirs},
                    {"over_bare", ours / theirs}};
  }
  std::cout << report.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace cpfeed::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("idle_bench: a unary call after a pause");
  absl::ParseCommandLine(argc, argv);
  return cpfeed::bench::Main();
}
