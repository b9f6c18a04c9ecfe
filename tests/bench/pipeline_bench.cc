// pipeline_bench: documents to ranks through the whole service, every part a
// process: the loader packs and sends, the server converts, plans, shards and
// streams, ranks gather. Beside it a bare gRPC stream of as many bytes to as
// many receivers. One JSON line.

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
#include "client/documents/batch_source.h"
#include "client/feeder.h"
#include "client/session_client.h"
#include "core/base/status_macros.h"
#include "core/shard/cuda/shard_device.h"
#include "cpfeed/v1/session.pb.h"
#include "tests/bench/bare_stream.h"
#include "tests/bench/document_pool.h"
#include "tests/bench/forked_process.h"
#include "tests/bench/measure.h"
#include "tests/bench/measured_readers.h"
#include "tests/bench/session_stream.h"

ABSL_FLAG(bool, smoke, false, "Sizes that only show that it runs.");
ABSL_FLAG(int, rounds, 5, "How often everything is measured.");
ABSL_FLAG(int, steps, 24, "Steps of a round.");
ABSL_FLAG(std::string, device, "cpu",
          "What the server cuts batches with: cpu, cuda or auto.");

namespace cpfeed::bench {
namespace {

constexpr int64_t kRowWidth = 8192;
constexpr int64_t kMeanDocument = 600;
constexpr int64_t kBytesPerToken = 25;  // Three int64 tensors and a mask.
constexpr int64_t kChunkBytes = 1 << 20;

struct Case {
  const char* name;
  int64_t rows;
  int cp_size;

  int64_t tokens() const { return rows * kRowWidth; }
  int64_t step_bytes() const { return tokens() * kBytesPerToken; }
};

void Create(const std::shared_ptr<grpc::Channel>& channel,
            const std::string& id, const Case& measured) {
  v1::CreateSessionRequest request;
  request.set_session_id(id);
  v1::Session& session = *request.mutable_session();
  session.mutable_topology()->set_cp_size(measured.cp_size);
  v1::SessionLimits& limits = *session.mutable_limits();
  limits.set_max_batch_bytes(2 * measured.step_bytes());
  limits.set_memory_budget_bytes(16 * measured.step_bytes());
  limits.set_max_message_bytes(kChunkBytes);
  CF_CHECK(CreateSession(channel, request).ok());
}

// Packs documents out of memory and puts them, as `cpfeed feed` does.
void Feed(const std::shared_ptr<grpc::Channel>& channel, const std::string& id,
          const Case& measured, int64_t num_steps) {
  const int64_t documents =
      2 * measured.tokens() / kMeanDocument + 4 * measured.rows;
  auto source = BatchSource::Create(
      MakeDocumentPool(documents, kMeanDocument, kRowWidth),
      {.pack = {.row_width = kRowWidth,
                .rows = measured.rows,
                .slot_multiple = int64_t{2} * measured.cp_size},
       .epochs = 0});
  CF_CHECK(source.ok());
  auto feeder =
      Feeder::Open(channel, {.session = absl::StrCat("sessions/", id)});
  CF_CHECK(feeder.ok());
  for (int64_t i = 0; i < num_steps; ++i) {
    const auto batch = (*source)->Next();
    CF_CHECK(batch.ok() && batch->has_value());
    CF_CHECK((*feeder)
                 ->Put((*batch)->batch, {.producer_state = (*source)->State()})
                 .ok());
  }
  CF_CHECK((*feeder)->Finish().ok());
}

class PipelineBench {
 public:
  PipelineBench(int64_t num_steps, DeviceChoice device)
      : num_steps_(num_steps),
        product_(ServeProduct(device)),
        bare_(ServeBare()),
        product_port_(product_->pipe().Receive<int>()),
        bare_port_(bare_->pipe().Receive<int>()) {}

  ~PipelineBench() {
    product_->pipe().Send(true);
    bare_->pipe().Send(true);
  }

  ReadersCost Product(const Case& measured) {
    const std::string id = absl::StrCat("p", num_sessions_++);
    const std::string warm_up_id = absl::StrCat(id, "w");
    const ForkedProcess prepare([&](const Pipe&) {
      const auto channel = MakeChannel(Address(product_port_));
      Create(channel, id, measured);
      Create(channel, warm_up_id, measured);
      Feed(channel, warm_up_id, measured, 1);
    });
    return MeasureReaders(
        product_->pid(), product_port_, measured.cp_size,
        [&](const auto& channel, int i, bool warm_up) {
          return ReadSession(channel, warm_up ? warm_up_id : id, i);
        },
        [&](const auto& channel) { Feed(channel, id, measured, num_steps_); });
  }

  ReadersCost Bare(const Case& measured) {
    std::vector<char> out(measured.step_bytes() / measured.cp_size +
                          kChunkBytes + 64);
    const int64_t num_chunks =
        num_steps_ * measured.step_bytes() / measured.cp_size / kChunkBytes;
    return MeasureReaders(
        bare_->pid(), bare_port_, measured.cp_size,
        [&](const auto& channel, int, bool warm_up) {
          return ReadBareStream(
              channel, BareKind::kRaw,
              {.chunk_bytes = kChunkBytes,
               .num_chunks = warm_up ? num_chunks / 8 + 1 : num_chunks + 1},
              out);
        });
  }

 private:
  const int64_t num_steps_;
  const std::unique_ptr<ForkedProcess> product_;
  const std::unique_ptr<ForkedProcess> bare_;
  const int product_port_;
  const int bare_port_;
  int num_sessions_ = 0;
};

struct Costs {
  std::vector<Cost> product;  // Seconds for a GiB.
  std::vector<Cost> raw;
  std::vector<double> steps_per_second;
  std::vector<double> loader;  // CPU seconds for a step.
  std::vector<double> server;
  std::vector<double> ranks;
};

nlohmann::json Report(const Case& measured, const Costs& costs) {
  return {{"case", measured.name},
          {"tokens", measured.tokens()},
          {"step_bytes", measured.step_bytes()},
          {"cp_size", measured.cp_size},
          {"steps_per_s", Median(costs.steps_per_second)},
          {"loader_cpu_s_per_step", Median(costs.loader)},
          {"server_cpu_s_per_step", Median(costs.server)},
          {"ranks_cpu_s_per_step", Median(costs.ranks)},
          {"product_ms_per_gib", Milliseconds(costs.product)},
          {"raw_ms_per_gib", Milliseconds(costs.raw)},
          // Throughput is the other way round than time.
          {"throughput_over_raw", RatioOf(costs.raw, costs.product)["wall"]},
          {"cpu_over_raw", RatioOf(costs.product, costs.raw)["cpu"]}};
}

int Main() {
  const bool smoke = absl::GetFlag(FLAGS_smoke);
  const int64_t steps = smoke ? 2 : absl::GetFlag(FLAGS_steps);
  const int rounds = smoke ? 1 : absl::GetFlag(FLAGS_rounds);
  CF_CHECK(steps > 0 && rounds > 0);
  const auto device = ParseDeviceChoice(absl::GetFlag(FLAGS_device));
  CF_CHECK(device.ok());
  // 24 MiB for each of 2 ranks; 1M tokens for 8 ranks.
  const std::vector<Case> cases = {{"step", smoke ? 2 : 246, 2},
                                   {"pipeline", smoke ? 2 : 128, 8}};
  std::vector<Costs> costs(cases.size());
  {
    PipelineBench bench(steps, *device);
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < cases.size(); ++i) {
        const ReadersCost product = bench.Product(cases[i]);
        const auto count = static_cast<double>(steps);
        costs[i].product.push_back(product.PerGib());
        costs[i].steps_per_second.push_back(count / product.wall);
        costs[i].loader.push_back(product.feeder_cpu / count);
        costs[i].server.push_back(product.server_cpu / count);
        costs[i].ranks.push_back(product.reader_cpu / count);
        costs[i].raw.push_back(bench.Bare(cases[i]).PerGib());
      }
    }
  }
  nlohmann::json report = {{"bench", "pipeline"},
                           {"steps", steps},
                           {"rounds", rounds},
                           {"device", absl::GetFlag(FLAGS_device)}};
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
      "pipeline_bench: documents to ranks over a bare gRPC stream");
  absl::ParseCommandLine(argc, argv);
  return cpfeed::bench::Main();
}
