// What a layout has to say for itself. To add one, write its rule in a file of
// its own and put it into layout_registry.cc.

#ifndef CPFEED_CORE_PLAN_LAYOUTS_LAYOUT_RULE_H_
#define CPFEED_CORE_PLAN_LAYOUTS_LAYOUT_RULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/batch/packed_batch.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/layout_spec.h"
#include "core/plan/rank_plan.h"

namespace cpfeed {

// A field of LayoutSpec that the layout reads. Part of the plan digest.
struct LayoutParameter {
  absl::string_view name;
  int64_t (*value)(const LayoutSpec& spec);
  int64_t least;
  int64_t most;
};

// One chunk to share out. The lengths keep their rules and the layout's, the
// parameters are in range.
struct DealRequest {
  const PackedLengths& lengths;
  int64_t total_tokens;  // Sum of lengths.padded.
  const LayoutSpec& spec;
  int cp_size;  // At least 2.
};

struct LayoutRule {
  Layout layout;
  absl::string_view name;
  absl::Span<const LayoutParameter> parameters;

  // What must be divisible, and by what.
  PadRule (*needs)(const LayoutSpec& spec, int64_t cp_size);
  // How `needs` comes to its multiple, for messages: "2 * cp_size".
  absl::string_view multiple_formula;

  // Into how many pieces at most `deal` cuts the stream, beside the cuts
  // between sequences.
  int64_t (*max_cuts)(const DealRequest& request);

  // Appends to ranks[r].segments what rank r holds; `ranks` has cp_size empty
  // plans.
  absl::Status (*deal)(const DealRequest& request,
                       std::vector<RankPlan>& ranks);
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_PLAN_LAYOUTS_LAYOUT_RULE_H_
