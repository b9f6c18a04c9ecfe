// stream_bench: the stream of shards over loopback, server and readers in
// processes of their own, in units of what gRPC alone needs for as many bytes
// in messages of the same size. One JSON line.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "client/session_client.h"
#include "core/base/status_macros.h"
#include "tests/bench/bare_stream.h"
#include "tests/bench/forked_process.h"
#include "tests/bench/measure.h"
#include "tests/bench/measured_readers.h"
#include "tests/bench/session_stream.h"
#include "transport/channel_settings.h"

ABSL_FLAG(bool, smoke, false, "Sizes that only show that it runs.");
ABSL_FLAG(int, rounds, 5, "How often everything is measured.");
ABSL_FLAG(int, steps, 12, "Steps of a session, of 1M tokens and 25 MiB each.");

namespace cpfeed::bench {
namespace {

struct Sizes {
  int64_t step_tokens;
  int64_t num_steps;
  int rounds;

  int64_t StepBytes() const { return 25 * step_tokens; }
};

struct Case {
  int64_t chunk_bytes;
  int receivers;
};

class StreamBench {
 public:
  explicit StreamBench(Sizes sizes)
      : sizes_(sizes),
        product_(ServeProduct()),
        bare_(ServeBare()),
        product_port_(product_->pipe().Receive<int>()),
        bare_port_(bare_->pipe().Receive<int>()) {}

  ~StreamBench() {
    product_->pipe().Send(true);
    bare_->pipe().Send(true);
  }

  // Seconds for a GiB of the product, then of raw messages and of `bytes`.
  Cost Product(Case measured) {
    const std::string id = absl::StrCat("s", num_sessions_++);
    Fill(id, measured);
    return MeasureReaders(product_->pid(), product_port_, measured.receivers,
                          [&](const auto& channel, int i, bool warm_up) {
                            return ReadSession(
                                channel, warm_up ? absl::StrCat(id, "w") : id,
                                i);
                          })
        .PerGib();
  }

  Cost Bare(Case measured, BareKind kind) {
    // As a rank that gathers whole steps.
    std::vector<char> out(std::max(sizes_.StepBytes() / measured.receivers,
                                   measured.chunk_bytes) +
                          64);
    const int64_t bytes =
        sizes_.num_steps * sizes_.StepBytes() / measured.receivers;
    const int64_t num_chunks =
        std::max<int64_t>(bytes / measured.chunk_bytes, 1);
    return MeasureReaders(
               bare_->pid(), bare_port_, measured.receivers,
               [&](const auto& channel, int, bool warm_up) {
                 return ReadBareStream(
                     channel, kind,
                     {.chunk_bytes = measured.chunk_bytes,
                      .num_chunks = warm_up ? num_chunks / 8 + 1 : num_chunks},
                     out);
               })
        .PerGib();
  }

 private:
  // The session that counts, and one to warm up with.
  void Fill(const std::string& id, Case measured) {
    const ForkedProcess loader([&](const Pipe&) {
      TuneAllocator();
      const auto channel = MakeChannel(Address(product_port_));
      SessionLoad load{.id = id,
                       .cp_size = measured.receivers,
                       .chunk_bytes = measured.chunk_bytes,
                       .step_tokens = sizes_.step_tokens,
                       .num_steps = sizes_.num_steps};
      FillSession(channel, load);
      load.id += "w";
      load.num_steps = 2;
      FillSession(channel, load);
    });
  }

  const Sizes sizes_;
  const std::unique_ptr<ForkedProcess> product_;
  const std::unique_ptr<ForkedProcess> bare_;
  const int product_port_;
  const int bare_port_;
  int num_sessions_ = 0;
};

struct Costs {
  std::vector<Cost> product;
  std::vector<Cost> raw;
  std::vector<Cost> bytes;
};

nlohmann::json Report(Case measured, const Costs& costs) {
  return {
      {"chunk_kib", measured.chunk_bytes / 1024},
      {"receivers", measured.receivers},
      {"product_ms_per_gib", Milliseconds(costs.product)},
      {"raw_ms_per_gib", Milliseconds(costs.raw)},
      // Throughput is the other way round than time.
      {"throughput_over_raw", RatioOf(costs.raw, costs.product)["wall"]},
      {"cpu_over_raw", RatioOf(costs.product, costs.raw)["cpu"]},
      {"throughput_over_bytes", RatioOf(costs.bytes, costs.product)["wall"]},
      {"cpu_over_bytes", RatioOf(costs.product, costs.bytes)["cpu"]}};
}

int Main() {
  const Sizes sizes =
      absl::GetFlag(FLAGS_smoke)
          ? Sizes{.step_tokens = 1 << 12, .num_steps = 2, .rounds = 1}
          : Sizes{.step_tokens = 1 << 20,
                  .num_steps = absl::GetFlag(FLAGS_steps),
                  .rounds = absl::GetFlag(FLAGS_rounds)};
  CF_CHECK(sizes.num_steps > 0 && sizes.rounds > 0);
  const std::vector<Case> cases = {
      {1 << 20, 1}, {1 << 20, 4}, {4 << 20, 1}, {4 << 20, 4}};
  std::vector<Costs> costs(cases.size());
  {
    StreamBench bench(sizes);
    for (int round = 0; round < sizes.rounds; ++round) {
      for (size_t i = 0; i < cases.size(); ++i) {
        costs[i].product.push_back(bench.Product(cases[i]));
        costs[i].raw.push_back(bench.Bare(cases[i], BareKind::kRaw));
        costs[i].bytes.push_back(bench.Bare(cases[i], BareKind::kBytes));
      }
    }
  }
  nlohmann::json report = {{"bench", "stream"},
                           {"step_bytes", sizes.StepBytes()},
                           {"steps", sizes.num_steps},
                           {"rounds", sizes.rounds}};
  for (size_t i = 0; i < cases.size(); ++i) {
    report["cases"].push_back(Report(cases[i], costs[i]));
  }
  std::cout << report.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace cpfeed::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "stream_bench: streams of shards over bare gRPC streams");
  absl::ParseCommandLine(argc, argv);
  return cpfeed::bench::Main();
}
