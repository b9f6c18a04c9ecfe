// /statusz: what people want to see first when something is stuck.

#ifndef CPFEED_SERVER_METRICS_STATUS_PAGE_H_
#define CPFEED_SERVER_METRICS_STATUS_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "server/session_registry.h"

namespace cpfeed {

// Plain text: the server, then each session's state, memory, producers,
// consumers with their lag, and the newest step's plan as a small picture (see
// PlanPicture). At most 64 sessions and 64 streams of each; the rest is
// counted.
std::string StatusPage(const SessionRegistry& registry,
                       absl::string_view server_line);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_METRICS_STATUS_PAGE_H_
