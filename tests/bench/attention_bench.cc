// attention_bench: what splitting attention over ranks costs, over the same
// work in one process. One JSON line.

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/synchronization/barrier.h"
#include "client/worker/rank_allocator.h"
#include "core/attention/cp_attention.h"
#include "core/attention/make_kv_exchange.h"
#include "core/base/status_macros.h"
#include "core/comm/gloo_communicator.h"
#include "core/comm/rendezvous_store.h"
#include "core/plan/layout.h"
#include "core/plan/shard_plan.h"
#include "tests/bench/measure.h"

ABSL_FLAG(bool, smoke, false, "Sizes that only show that it runs.");
ABSL_FLAG(int, rounds, 5, "How often everything is measured.");
ABSL_FLAG(int, ranks, 2, "Ranks, one thread each, over Gloo.");
ABSL_FLAG(int64_t, tokens, 4096, "Tokens of the stream.");
ABSL_FLAG(int64_t, mean_document, 0,
          "Mean length of its documents; 0: it is one.");
ABSL_FLAG(int, heads, 8, "Heads of queries, keys and values.");
ABSL_FLAG(int, head_dim, 64, "Components of a head.");
ABSL_FLAG(std::string, dtype, "float32", "float32 or bfloat16.");
ABSL_FLAG(std::string, layout, "HEAD_TAIL_PER_SEQUENCE", "Who holds what.");
ABSL_FLAG(std::vector<std::string>, exchanges, {}, "Default: all.");

namespace cpfeed::bench {
namespace {

struct Problem {
  PackedLengths lengths;
  int64_t heads;
  int64_t head_dim;
  at::ScalarType dtype;
  double scale;
};

// Lengths uniform in [1, 2 * mean), in slots of a multiple of `multiple`.
PackedLengths Documents(int64_t tokens, int64_t mean, int64_t multiple) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int64_t> uniform(1, 2 * mean - 1);
  PackedLengths lengths;
  int64_t left = tokens;
  while (left > 0) {
    int64_t length = mean == 0 ? left : uniform(random);
    int64_t slot = (length + multiple - 1) / multiple * multiple;
    slot = std::min(slot, left);
    lengths.real.push_back(std::min(length, slot));
    lengths.padded.push_back(slot);
    left -= slot;
  }
  lengths.row_splits = {0, lengths.num_sequences()};
  return lengths;
}

// The kernel on each document, forward and backward, in one thread: what a user
// without ranks runs.
class OneProcess {
 public:
  explicit OneProcess(const Problem& problem) : scale_(problem.scale) {
    for (const int64_t length : problem.lengths.real) {
      const auto make = [&] {
        return at::randn({1, problem.heads, length, problem.head_dim})
            .to(problem.dtype);
      };
      documents_.push_back({make(), make(), make(), make()});
    }
  }

  Cost Round() const {
    const Stopwatch watch;
    for (const auto& [q, k, v, dout] : documents_) {
      const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          q, k, v, 0.0, true, std::nullopt, scale_);
      at::_scaled_dot_product_flash_attention_for_cpu_backward(
          dout, q, k, v, out, lse, 0.0, true, std::nullopt, scale_);
    }
    return watch.Elapsed();
  }

 private:
  struct Document {
    at::Tensor q, k, v, dout;
  };
  const double scale_;
  std::vector<Document> documents_;
};

// Ranks as threads, each with a store connection and sockets of its own.
class Ranks {
 public:
  Ranks(const Problem& problem, const LayoutSpec& spec, int size)
      : size_(size) {
    auto plan = PlanShards(problem.lengths, spec, size);
    CF_CHECK(plan.ok());
    plan_ = *std::move(plan);
    auto host = RendezvousStore::Open({.host = true});
    CF_CHECK(host.ok());
    host_ = *std::move(host);
    parts_.resize(size);
    OnAll([&](int rank) { Join(problem, rank); });
  }

  Cost Round(const KvExchange& exchange) {
    // The ranks' threads wait before the watch starts and after it stops, so
    // that making them does not count.
    absl::Barrier* const ready = new absl::Barrier(size_ + 1);
    absl::Barrier* const done = new absl::Barrier(size_ + 1);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] {
        at::set_num_threads(1);
        if (ready->Block()) delete ready;
        Step(exchange, rank);
        if (done->Block()) delete done;
      });
    }
    if (ready->Block()) delete ready;
    const Stopwatch watch;
    if (done->Block()) delete done;
    const Cost cost = watch.Elapsed();
    for (std::thread& thread : threads) thread.join();
    return cost;
  }

 private:
  struct Part {
    std::unique_ptr<Communicator> group;
    AttentionInputs inputs;
    at::Tensor dout;
  };

  void OnAll(const std::function<void(int)>& body) const {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size_; ++rank) threads.emplace_back(body, rank);
    for (std::thread& thread : threads) thread.join();
  }

  void Join(const Problem& problem, int rank) {
    auto store = RendezvousStore::Open({.port = host_->port()});
    CF_CHECK(store.ok());
    auto group = JoinGlooGroup(
        *store, {.rank = rank, .size = size_, .host_name = "127.0.0.1"});
    CF_CHECK(group.ok());
    const auto make = [&] {
      return at::randn({plan_.ranks[rank].num_tokens, problem.heads,
                        problem.head_dim})
          .to(problem.dtype);
    };
    parts_[rank] = {
        *std::move(group),
        {.q = make(), .k = make(), .v = make(), .scale = problem.scale},
        make()};
  }

  void Step(const KvExchange& exchange, int rank) {
    Part& part = parts_[rank];
    const auto output =
        ContextParallelAttention(exchange, part.inputs, plan_, *part.group);
    CF_CHECK(output.ok());
    CF_CHECK(ContextParallelAttentionBackward(exchange, part.inputs, *output,
                                              part.dout, plan_, *part.group)
                 .ok());
  }

  const int size_;
  ShardPlan plan_;
  std::shared_ptr<RendezvousStore> host_;
  std::vector<Part> parts_;
};

std::vector<std::string> Exchanges(const LayoutSpec& spec) {
  std::vector<std::string> names = absl::GetFlag(FLAGS_exchanges);
  if (!names.empty()) return names;
  const bool blocks = spec.layout == Layout::kHeadTailPerSequence ||
                      spec.layout == Layout::kHeadTailPerRow ||
                      spec.layout == Layout::kContiguous;
  for (const std::string& name : KvExchangeNames()) {
    if (blocks || (name != "ring" && name != "hierarchical")) {
      names.push_back(name);
    }
  }
  return names;
}

int Main() {
  KeepFreedMemory();  // As the worker does.
  at::set_num_threads(1);
  const bool smoke = absl::GetFlag(FLAGS_smoke);
  const int ranks = absl::GetFlag(FLAGS_ranks);
  const int rounds = smoke ? 1 : absl::GetFlag(FLAGS_rounds);
  const auto layout = ParseLayout(absl::GetFlag(FLAGS_layout));
  CF_CHECK(layout.ok() && rounds > 0);
  const int64_t head_dim = absl::GetFlag(FLAGS_head_dim);
  const Problem problem{
      .lengths =
          Documents(smoke ? 256 : absl::GetFlag(FLAGS_tokens),
                    absl::GetFlag(FLAGS_mean_document), int64_t{2} * ranks),
      .heads = absl::GetFlag(FLAGS_heads),
      .head_dim = head_dim,
      .dtype =
          absl::GetFlag(FLAGS_dtype) == "bfloat16" ? at::kBFloat16 : at::kFloat,
      .scale = 1 / std::sqrt(static_cast<double>(head_dim))};
  const LayoutSpec spec{.layout = *layout};
  const OneProcess one(problem);
  Ranks group(problem, spec, ranks);
  std::vector<Cost> whole;
  std::map<std::string, std::vector<Cost>> split;
  for (int round = -1; round < rounds; ++round) {  // The first warms up.
    const Cost cost = one.Round();
    if (round >= 0) whole.push_back(cost);
    for (const std::string& name : Exchanges(spec)) {
      const Cost part = group.Round(**MakeKvExchange(name));
      if (round >= 0) split[name].push_back(part);
    }
  }
  nlohmann::json report = {{"bench", "attention"},
                           {"ranks", ranks},
                           {"rounds", rounds},
                           {"documents", problem.lengths.num_sequences()},
                           {"dtype", absl::GetFlag(FLAGS_dtype)},
                           {"one_process_ms", Milliseconds(whole)}};
  for (const auto& [name, costs] : split) {
    report["efficiency"][name] = RatioOf(whole, costs);
    report["ms"][name] = Milliseconds(costs);
  }
  std::cout << report.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace cpfeed::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "attention_bench: attention over ranks and in one process");
  absl::ParseCommandLine(argc, argv);
  return cpfeed::bench::Main();
}
