// `cpfeed plan`: who would get what, and how good is that, from lengths alone.

#ifndef CPFEED_CLIENT_CLI_PLAN_COMMAND_H_
#define CPFEED_CLIENT_CLI_PLAN_COMMAND_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace cpfeed {

struct PlanOptions {
  std::string lengths;  // A file, or "-"; see lengths_file.h.
  int64_t cp_size = 1;
  std::vector<std::string> layouts = {"HEAD_TAIL_PER_SEQUENCE"};
  bool uneven = false;
  int64_t stripe_width = 1;
  int64_t chunk_size = 128;
  bool keep_padding = false;
  int64_t token_multiple = 1;
  std::string objective = "auto";  // auto, area or tile.
  std::string mask = "causal";     // causal, full or window.
  std::optional<int64_t> window_left;
  int64_t linear_cost = 0;
  bool auto_pad = false;  // Slots grow until a layout's rule holds.
  // With the first two, traffic is given in bytes too.
  std::optional<int64_t> num_kv_heads;
  std::optional<int64_t> head_dim;
  int64_t dtype_bytes = 2;
  bool verify = false;    // Check each plan by another code path.
  bool segments = false;  // Print each rank's segments.
  std::string html;       // Write a page with pictures there.
  bool json = false;
};

// Plans and prints: tables for people, or one JSON object
//   {"layouts": [...]}, see PlanReportJson, or
//   {"status", "reason", "message"} where options or lengths are wrong, or the
//   only layout refuses them.
// In tables such an error goes to the standard error stream.
//
// Returns the exit status: 0; 2 where options or lengths are wrong or every
// layout refuses them; 1 where a plan does not pass its verification.
int RunPlan(const PlanOptions& options, std::ostream& out);

// Adds the sub-command. When it is parsed, `run` becomes RunPlan on the
// standard output; `run` outlives `app`.
void RegisterPlan(CLI::App& app, std::function<int()>& run);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_PLAN_COMMAND_H_
