#include "client/cli/metrics_json.h"

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
  return json;
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
