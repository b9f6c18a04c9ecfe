// How good and how fast plans are, layout by layout, over packs of document
// lengths as training data has them. One line of JSON on the standard output,
// a table on the standard error stream.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/checked_math.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/layout.h"
#include "core/plan/layout_spec.h"
#include "core/plan/plan_bounds.h"
#include "core/plan/plan_metrics.h"
#include "core/plan/plan_verifier.h"
#include "core/plan/row_permutation.h"
#include "core/plan/shard_plan.h"
#include "core/plan/transfer_table.h"
#include "tests/bench/length_mixes.h"
#include "tests/bench/measure.h"

ABSL_FLAG(int, packs, 50, "Packs of each mix and size.");
ABSL_FLAG(std::string, mixes, "", "Mixes by comma; empty means all.");
ABSL_FLAG(std::string, sizes, "",
          "Tokens:cp_size by comma, such as 1048576:256; empty means all.");
ABSL_FLAG(bool, baselines, true, "Plan by the other layouts too.");
ABSL_FLAG(int, seed, 20240607, "Of the packs.");
ABSL_FLAG(bool, smoke, false, "Smallest sizes, to see that it runs.");

namespace cpfeed::bench {
namespace {

struct Size {
  int64_t tokens;
  int cp_size;
};

constexpr Size kSizes[] = {{131072, 8},    {131072, 16},  {131072, 32},
                           {524288, 64},   {1048576, 64}, {1048576, 128},
                           {1048576, 256}, {4194304, 256}};

struct Contender {
  std::string name;
  LayoutSpec spec;
  bool pads_slots = false;  // To what the layout needs.
};

std::vector<Contender> Contenders() {
  std::vector<Contender> contenders = {
      {"BALANCED area",
       {.layout = Layout::kBalanced, .objective = Objective::kArea}},
      {"BALANCED tile",
       {.layout = Layout::kBalanced, .objective = Objective::kTile}}};
  if (!absl::GetFlag(FLAGS_baselines)) return contenders;
  contenders.insert(contenders.end(),
                    {{"HEAD_TAIL_PER_SEQUENCE",
                      {.layout = Layout::kHeadTailPerSequence},
                      true},
                     {"HEAD_TAIL_PER_ROW", {.layout = Layout::kHeadTailPerRow}},
                     {"CHUNK_GREEDY 128", {.layout = Layout::kChunkGreedy}},
                     {"PTRR 128", {.layout = Layout::kPtrr}}});
  return contenders;
}

// Sums and extremes over the packs of one mix and size.
struct Figures {
  double packs = 0;
  double area = 0, worst_area = 0;
  double tile = 0, worst_tile = 0, tile_inflation = 0;
  double kv = 0, kv_max = 0;
  double bound = 0, band = 0, max_bound = 0;
  double padding = 0;
  double slices = 0, most_slices = 0;
  double worst_slice_excess = 0;  // Over 5 * documents / cp + 10.
  int64_t token_errors = 0;
  std::vector<double> ms;        // To plan.
  std::vector<double> order_ms;  // For permutation and inverse.
};

double Percentile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<size_t>(std::ceil(part * last))];
}

PackedLengths LengthsFor(const Contender& contender,
                         const std::vector<int64_t>& pack, int cp_size) {
  PackedLengths lengths = {
      .real = pack,
      .padded = pack,
      .row_splits = {0, static_cast<int64_t>(pack.size())}};
  if (contender.pads_slots) {
    for (int64_t& slot : lengths.padded) {
      slot = RoundUp(slot, int64_t{2} * cp_size);
    }
  }
  return lengths;
}

void Add(const ShardPlan& plan, double ms, Figures& figures) {
  const PlanMetrics metrics = ComputePlanMetrics(plan);
  const PlanBounds bounds =
      ComputePlanBounds(plan.lengths, plan.cp_size, plan.spec.mask);
  const double tile = static_cast<double>(metrics.tiles.max) * plan.cp_size /
                      static_cast<double>(metrics.unsharded_tiles);
  ++figures.packs;
  figures.area += metrics.area.imbalance();
  figures.worst_area = std::max(figures.worst_area, metrics.area.imbalance());
  figures.tile += tile;
  figures.worst_tile = std::max(figures.worst_tile, tile);
  figures.tile_inflation += metrics.tile_inflation();
  figures.kv += metrics.kv_rows_received.mean;
  figures.kv_max += static_cast<double>(metrics.kv_rows_received.max);
  figures.bound += bounds.mean_kv_rows;
  figures.band += bounds.mean_kv_band;
  figures.max_bound += bounds.max_kv_rows;
  figures.padding += static_cast<double>(metrics.padding_tokens) /
                     (metrics.tokens.mean * plan.cp_size);
  figures.slices += metrics.slices.mean;
  const auto slices = static_cast<double>(metrics.slices.max);
  figures.most_slices = std::max(figures.most_slices, slices);
  figures.worst_slice_excess = std::max(
      figures.worst_slice_excess,
      slices -
          5.0 * static_cast<double>(plan.lengths.real.size()) / plan.cp_size -
          10);
  if (metrics.tokens.max > bounds.max_tokens) ++figures.token_errors;
  figures.ms.push_back(ms);
}

void PlanPack(const std::vector<int64_t>& pack, int cp_size,
              const Contender& contender, Figures& figures) {
  const PackedLengths lengths = LengthsFor(contender, pack, cp_size);
  const Stopwatch watch;
  const auto plan = PlanShards(lengths, contender.spec, cp_size);
  CF_CHECK(plan.ok());
  const TransferTable transfers(*plan, plan->spec.mask);
  const double ms = watch.Elapsed().cpu * 1000;
  CF_CHECK(transfers.traffic().size() == static_cast<size_t>(cp_size));
  static RowPermutation& order = *new RowPermutation;
  const Stopwatch order_watch;
  ComputeRowPermutation(*plan, order);
  figures.order_ms.push_back(order_watch.Elapsed().cpu * 1000);
  CF_CHECK(!order.row_of_position.empty());
  if (contender.spec.layout == Layout::kBalanced) {
    CF_CHECK(VerifyPlan(*plan).ok());
  }
  Add(*plan, ms, figures);
}

nlohmann::json ToJson(const Contender& contender, const Figures& f) {
  return {{"layout", contender.name},
          {"area", f.area / f.packs},
          {"area_worst", f.worst_area},
          {"tile", f.tile / f.packs},
          {"tile_worst", f.worst_tile},
          {"tile_inflation", f.tile_inflation / f.packs},
          {"kv_over_bound", f.bound > 0 ? f.kv / f.bound : 0},
          {"kv_over_band", f.band > 0 ? f.kv / f.band : 0},
          {"max_kv_over_bound", f.max_bound > 0 ? f.kv_max / f.max_bound : 0},
          {"kv_rows", f.kv / f.packs},
          {"padding", f.padding / f.packs},
          {"slices", f.slices / f.packs},
          {"slices_max", f.most_slices},
          {"slices_over_limit", f.worst_slice_excess},
          {"token_errors", f.token_errors},
          {"ms_p50", Percentile(f.ms, 0.5)},
          {"ms_p99", Percentile(f.ms, 0.99)},
          {"order_ms_p50", Percentile(f.order_ms, 0.5)}};
}

void PrintRow(const nlohmann::json& row) {
  const auto number = [&](const char* name) { return row[name].get<double>(); };
  std::cerr << absl::StrFormat(
      "  %-22s %6.3f %6.3f  %6.3f %6.3f %6.3f  %6.2f %6.2f %6.2f  %5.1f%% "
      "%6.1f %5.0f  %7.3f %7.3f\n",
      row["layout"].get<std::string>(), number("area"), number("area_worst"),
      number("tile"), number("tile_worst"), number("tile_inflation"),
      number("kv_over_bound"), number("kv_over_band"),
      number("max_kv_over_bound"), 100 * number("padding"), number("slices"),
      number("slices_max"), number("ms_p50"), number("ms_p99"));
}

nlohmann::json RunCase(const std::string& mix, const Size& size, int packs) {
  const std::vector<Contender> contenders = Contenders();
  std::vector<Figures> figures(contenders.size());
  std::seed_seq seeds{static_cast<int64_t>(absl::GetFlag(FLAGS_seed)),
                      static_cast<int64_t>(mix[0]),
                      static_cast<int64_t>(mix.size()), size.tokens,
                      int64_t{size.cp_size}};
  std::mt19937_64 random(seeds);
  for (int i = 0; i < packs; ++i) {
    const std::vector<int64_t> pack = DrawPack(mix, size.tokens, random);
    for (size_t c = 0; c < contenders.size(); ++c) {
      PlanPack(pack, size.cp_size, contenders[c], figures[c]);
    }
  }
  nlohmann::json result = {
      {"mix", mix}, {"tokens", size.tokens}, {"cp_size", size.cp_size}};
  std::cerr << mix << " " << size.tokens << " on " << size.cp_size << "\n";
  for (size_t c = 0; c < contenders.size(); ++c) {
    result["layouts"].push_back(ToJson(contenders[c], figures[c]));
    PrintRow(result["layouts"].back());
  }
  return result;
}

// The figures that BALANCED is held to, over all cases.
nlohmann::json Summarize(const nlohmann::json& cases, size_t contender) {
  nlohmann::json sum = {{"layout", nullptr}};
  double many = 0, bound = 0, band = 0;
  for (const nlohmann::json& one : cases) {
    const nlohmann::json& row = one["layouts"][contender];
    sum["layout"] = row["layout"];
    for (const char* name :
         {"area", "area_worst", "tile", "tile_worst", "max_kv_over_bound",
          "slices_over_limit", "ms_p99", "order_ms_p50", "token_errors"}) {
      const double value = row[name].get<double>();
      const std::string key = absl::StrCat("most_", name);
      sum[key] = std::max(sum.value(key, value), value);
    }
    if (one["cp_size"].get<int>() < 64) continue;
    ++many;
    bound += row["kv_over_bound"].get<double>();
    band += row["kv_over_band"].get<double>();
  }
  if (many > 0) {
    sum["mean_kv_over_bound"] = bound / many;
    sum["mean_kv_over_band"] = band / many;
  }
  return sum;
}

std::vector<Size> SizesToRun() {
  const std::string text = absl::GetFlag(FLAGS_sizes);
  if (absl::GetFlag(FLAGS_smoke)) return {{16384, 8}, {16384, 128}};
  if (text.empty()) return {std::begin(kSizes), std::end(kSizes)};
  std::vector<Size> sizes;
  for (const auto& size : absl::StrSplit(text, ',')) {
    const std::vector<std::string> parts = absl::StrSplit(size, ':');
    CF_CHECK(parts.size() == 2);
    sizes.push_back({std::stoll(parts[0]), std::stoi(parts[1])});
  }
  return sizes;
}

int Main() {
  std::vector<std::string> mixes = LengthMixes();
  if (!absl::GetFlag(FLAGS_mixes).empty()) {
    mixes = absl::StrSplit(absl::GetFlag(FLAGS_mixes), ',');
  }
  const int packs = absl::GetFlag(FLAGS_smoke) ? 1 : absl::GetFlag(FLAGS_packs);
  std::cerr << "  layout                   area  worst    tile  worst inflat  "
               "kv/bnd /band max/bd    pad  slices  max   ms p50     p99\n";
  nlohmann::json report = {{"bench", "planner"}, {"packs", packs}};
  for (const Size& size : SizesToRun()) {
    for (const std::string& mix : mixes) {
      report["cases"].push_back(RunCase(mix, size, packs));
    }
  }
  for (size_t c = 0; c < 2; ++c) {
    report["summary"].push_back(Summarize(report["cases"], c));
    std::cerr << report["summary"].back() << "\n";
  }
  std::cout << report.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace cpfeed::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "planner_bench: balance, traffic and time of plans");
  absl::ParseCommandLine(argc, argv);
  return cpfeed::bench::Main();
}
