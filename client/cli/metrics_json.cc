#include "client/cli/metrics_json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace cpfeed {
namespace {

void AddSpread(absl::string_view name, const Spread& spread, Json& json) {
  json[absl::StrCat("max_", name)] = spread.max;
  json[absl::StrCat("mean_", name)] = spread.mean;
}

}  // namespace

Json MetricsJson(const PlanMetrics& metrics) {
  Json json;
  AddSpread("tokens", metrics.tokens, json);
  AddSpread("area", metrics.area, json);
  json["area_imbalance"] = metrics.area.imbalance();
  json["padding_tokens"] = metrics.padding_tokens;
  AddSpread("kv_rows_received", metrics.kv_rows_received, json);
  AddSpread("kv_rows_sent", metrics.kv_rows_sent, json);
  AddSpread("kv_rows_sent_once", metrics.kv_rows_sent_once, json);
  AddSpread("tiles", metrics.tiles, json);
  json["tile_imbalance"] = metrics.tiles.imbalance();
  json["unsharded_tiles"] = metrics.unsharded_tiles;
  json["tile_inflation"] = metrics.tile_inflation();
  AddSpread("slices", metrics.slices, json);
  json["cost_imbalance"] = metrics.cost.imbalance();
  int64_t fan_out = 0;
  for (const RankMetrics& rank : metrics.ranks) {
    fan_out = std::max(fan_out, rank.kv_fan_out);
  }
  json["max_kv_fan_out"] = fan_out;
  return json;
}

Json BoundsJson(const PlanBounds& bounds) {
  return {{"max_tokens", bounds.max_tokens},
          {"area_imbalance", bounds.area_imbalance},
          {"mean_kv_rows_received", bounds.mean_kv_rows},
          {"mean_kv_rows_received_band", bounds.mean_kv_band},
          {"max_kv_rows_received", bounds.max_kv_rows},
          {"max_tiles", bounds.max_tiles},
          {"max_slices", bounds.max_slices}};
}

Json SegmentsJson(const RankPlan& rank) {
  Json json = Json::array();
  for (const Segment& segment : rank.segments) {
    json.push_back({segment.sequence, segment.begin, segment.length});
  }
  return json;
}

std::string DigestText(uint64_t digest) {
  return absl::StrFormat("%016x", digest);
}

}  // namespace cpfeed
