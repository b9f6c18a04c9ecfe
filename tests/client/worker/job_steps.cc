#include "tests/client/worker/job_steps.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/plan/shard_plan.h"
#include "core/shard/shard_executor.h"
#include "core/thd/convert.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {

namespace {

using Rows = std::vector<std::vector<SlotLengths>>;

// `token(i)` is the i-th token of a document that begins with `first`.
PackedBatch MakeBatch(
    const Rows& rows, const std::function<int64_t()>& first,
    const std::function<int64_t(int64_t first, int64_t i)>& token) {
  std::vector<int64_t> ids, labels;
  RaggedLengths real{{}, {0}}, padded{{}, {0}};
  for (const auto& row : rows) {
    for (const SlotLengths& slot : row) {
      real.values.push_back(slot.real);
      padded.values.push_back(slot.padded);
      const int64_t begin = first();
      for (int64_t i = 0; i < slot.padded; ++i) {
        ids.push_back(i < slot.real ? token(begin, i) : 0);
        labels.push_back(-100);
        if (i > 0 && i < slot.real) labels[labels.size() - 2] = ids.back();
      }
    }
    real.row_splits.push_back(static_cast<int64_t>(real.values.size()));
    padded.row_splits.push_back(static_cast<int64_t>(padded.values.size()));
  }
  const int64_t num_rows = static_cast<int64_t>(rows.size());
  const int64_t width = static_cast<int64_t>(ids.size()) / num_rows;
  PackedBatch batch;
  batch.input_ids =
      Tensor::FromVector<int64_t>({num_rows, width}, std::move(ids));
  batch.labels =
      Tensor::FromVector<int64_t>({num_rows, width}, std::move(labels));
  batch.seq_lens = std::move(real);
  batch.seq_lens_padded = std::move(padded);
  return batch;
}

nlohmann::json RowsOf(const Tensor& tensor) {
  const auto values = tensor.Values<int64_t>();
  nlohmann::json rows = nlohmann::json::array();
  const int64_t width = tensor.shape[1];
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    const auto first = values.begin() + row * width;
    rows.push_back(std::vector<int64_t>(first, first + width));
  }
  return rows;
}

}  // namespace

PackedBatch BatchOf(const Rows& rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int64_t> token(1, 50000);
  return MakeBatch(
      rows, [] { return 0; }, [&](int64_t, int64_t) { return token(random); });
}

PackedBatch CountingBatchOf(const Rows& rows, int64_t vocabulary,
                            uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int64_t> token(0, vocabulary - 1);
  return MakeBatch(
      rows, [&] { return token(random); },
      [=](int64_t first, int64_t i) { return (first + i) % vocabulary; });
}

std::string LineOf(const PackedBatch& batch) {
  const auto rows_of = [](const RaggedLengths& lengths) {
    nlohmann::json rows = nlohmann::json::array();
    for (size_t row = 0; row + 1 < lengths.row_splits.size(); ++row) {
      const auto first = lengths.values.begin();
      rows.push_back(std::vector<int64_t>(first + lengths.row_splits[row],
                                          first + lengths.row_splits[row + 1]));
    }
    return rows;
  };
  return nlohmann::json{{"input_ids", RowsOf(batch.input_ids)},
                        {"labels", RowsOf(batch.labels)},
                        {"seq_lens", rows_of(*batch.seq_lens)},
                        {"seq_lens_padded", rows_of(*batch.seq_lens_padded)}}
      .dump();
}

std::vector<StepShard> ShardsOf(const PackedBatch& batch,
                                const LayoutSpec& spec, int cp_size,
                                int64_t num_chunks) {
  const auto thd = ConvertToThd(batch, {.num_chunks = num_chunks});
  EXPECT_THAT(thd, IsOk());
  std::vector<std::shared_ptr<const ShardPlan>> plans;
  for (const ThdChunk& chunk : thd->chunks) {
    auto plan = PlanShards(chunk.lengths, spec, cp_size);
    EXPECT_THAT(plan, IsOk());
    plans.push_back(std::make_shared<const ShardPlan>(*std::move(plan)));
  }
  auto shards = MakeCpuShardExecutor()->Execute(*thd, plans);
  EXPECT_THAT(shards, IsOk());
  return *std::move(shards);
}

StepSource SourceOf(std::vector<StepShard> steps) {
  return [steps = std::move(steps), next = size_t{0}]() mutable
         -> absl::StatusOr<std::optional<WorkerStep>> {
    if (next == steps.size()) return std::nullopt;
    WorkerStep step{.step = static_cast<int64_t>(next), .shard = steps[next]};
    ++next;
    return step;
  };
}

std::string WriteLines(const std::vector<std::string>& lines) {
  static std::atomic<int> files = 0;
  std::string path = absl::StrCat(::testing::TempDir(), "/lines", files++);
  std::ofstream file(path);
  for (const std::string& line : lines) file << line << '\n';
  return path;
}

}  // namespace cpfeed::testing
