// convert_bench: what it costs to convert, plan and cut a batch for all ranks,
// in units of a memcpy of the bytes that come out. One JSON line.

#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "core/base/status_macros.h"
#include "core/plan/plan_verifier.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard_executor.h"
#include "core/wire/shard_codec.h"
#include "tests/bench/document_batch.h"
#include "tests/bench/measure.h"
#include "transport/channel_settings.h"

ABSL_FLAG(bool, smoke, false, "Sizes that only show that it runs.");
ABSL_FLAG(int, rounds, 31, "How often everything is measured.");
ABSL_FLAG(int, only, -1, "Measure this case alone (0 to 3), for a profiler.");

namespace cpfeed::bench {
namespace {

constexpr int64_t kMeanDocument = 600;

struct Case {
  int64_t mean_length;
  int cp_size;
};

// What one round costs, by part.
struct Costs {
  std::vector<Cost> copy;     // A memcpy of the bytes produced.
  std::vector<Cost> convert;  // PrepareBatch and Execute.
  std::vector<Cost> verify;   // VerifyPlan.
  std::vector<Cost> encode;   // EncodeStep of all ranks: their checksums.
};

int64_t BytesOf(const std::vector<StepShard>& shards) {
  int64_t bytes = 0;
  for (const StepShard& shard : shards) {
    for (const Shard& chunk : shard.chunks) {
      for (const NamedTensor& tensor : chunk.tensors) {
        bytes += tensor.tensor.bytes.size();
      }
    }
  }
  return bytes;
}

// One configuration, measured a round at a time.
class Measurement {
 public:
  Measurement(int64_t num_tokens, Case measured)
      : case_(measured),
        batch_(MakeDocumentBatch(num_tokens, measured.mean_length,
                                 int64_t{2} * measured.cp_size)) {}

  void Round(const ShardExecutor& executor, bool keep) {
    const Stopwatch convert_watch;
    const auto prepared = PrepareBatch(
        batch_, {}, {.layout = Layout::kHeadTailPerSequence}, case_.cp_size);
    CF_CHECK(prepared.ok());
    const auto shards = executor.Execute(prepared->thd, prepared->plans);
    CF_CHECK(shards.ok());
    const Cost convert = convert_watch.Elapsed();

    const Stopwatch verify_watch;
    CF_CHECK(VerifyPlan(*prepared->plans[0]).ok());
    const Cost verify = verify_watch.Elapsed();

    const Stopwatch encode_watch;
    for (int rank = 0; rank < case_.cp_size; ++rank) {
      const EncodedStep step = EncodeStep((*shards)[rank], rank);
      CF_CHECK(step.payload.size() > 0);
    }
    const Cost encode = encode_watch.Elapsed();

    const Cost copy = Copy(BytesOf(*shards));
    if (!keep) return;
    costs_.convert.push_back(convert);
    costs_.verify.push_back(verify);
    costs_.encode.push_back(encode);
    costs_.copy.push_back(copy);
  }

  nlohmann::json Report() const {
    return {{"mean_document", case_.mean_length},
            {"cp_size", case_.cp_size},
            {"documents", batch_.seq_lens->values.size()},
            {"bytes", source_.size()},
            {"memcpy_ms", Milliseconds(costs_.copy)},
            {"convert_ms", Milliseconds(costs_.convert)},
            {"convert_over_memcpy", RatioOf(costs_.convert, costs_.copy)},
            {"verify_over_memcpy", RatioOf(costs_.verify, costs_.copy)},
            {"encode_over_memcpy", RatioOf(costs_.encode, costs_.copy)}};
  }

  const Costs& costs() const { return costs_; }

 private:
  // A memcpy of `bytes` bytes between pages that are there already.
  Cost Copy(int64_t bytes) {
    source_.resize(bytes, 1);
    copied_.resize(bytes, 2);
    const Stopwatch watch;
    std::memcpy(copied_.data(), source_.data(), source_.size());
    const Cost cost = watch.Elapsed();
    CF_CHECK(copied_[bytes / 2] == 1);
    return cost;
  }

  const Case case_;
  const PackedBatch batch_;
  std::vector<char> source_;
  std::vector<char> copied_;
  Costs costs_;
};

int Main() {
  TuneAllocator();  // As the server does.
  const bool smoke = absl::GetFlag(FLAGS_smoke);
  const int64_t num_tokens = smoke ? 1 << 14 : 1 << 20;
  const int64_t long_documents = num_tokens / 4;
  const int rounds = smoke ? 1 : absl::GetFlag(FLAGS_rounds);
  CF_CHECK(rounds > 0);
  std::vector<std::unique_ptr<Measurement>> measurements;
  for (const Case measured :
       {Case{kMeanDocument, 8}, Case{kMeanDocument, 64},
        Case{long_documents, 8}, Case{long_documents, 64}}) {
    measurements.push_back(std::make_unique<Measurement>(num_tokens, measured));
  }
  const int only = absl::GetFlag(FLAGS_only);
  const auto executor = MakeCpuShardExecutor();
  for (int round = -1; round < rounds; ++round) {  // The first warms up.
    for (const auto& measurement : measurements) {
      if (only >= 0 && measurement != measurements[only]) continue;
      measurement->Round(*executor, /*keep=*/round >= 0);
    }
  }
  nlohmann::json report = {
      {"bench", "convert"}, {"tokens", num_tokens}, {"rounds", rounds}};
  for (const auto& measurement : measurements) {
    if (measurement->costs().convert.empty()) continue;
    report["cases"].push_back(measurement->Report());
  }
  if (only < 0) {
    report["cp_64_over_cp_8"] = RatioOf(measurements[1]->costs().convert,
                                        measurements[0]->costs().convert);
  }
  std::cout << report.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace cpfeed::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "convert_bench: conversion, plan and shards over a memcpy");
  absl::ParseCommandLine(argc, argv);
  return cpfeed::bench::Main();
}
