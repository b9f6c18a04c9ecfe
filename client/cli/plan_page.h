// Plans as a picture: one HTML page that needs nothing else.

#ifndef CPFEED_CLIENT_CLI_PLAN_PAGE_H_
#define CPFEED_CLIENT_CLI_PLAN_PAGE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cli/plan_report.h"
#include "core/batch/packed_lengths.h"

namespace cpfeed {

// The pack as a strip of its documents, then for each plan a card: which rank
// holds which tokens, bars of area, tokens and key-value rows for each rank,
// and the figures beside what is possible at best (see PlanBounds; a dashed
// line in the bars). No scripts. At most kMostDrawnRanks ranks have a line of
// their own; the bars and figures are of all.
//
// `title` is shown as it is, escaped.
std::string PlanPage(absl::string_view title, const PackedLengths& lengths,
                     const std::vector<PlanReport>& reports);

inline constexpr int kMostDrawnRanks = 64;

// Writes it to a file.
//
// Errors:
//   UNAVAILABLE  The file cannot be written.
absl::Status WritePage(const std::string& path, const std::string& page);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_PLAN_PAGE_H_
