// `cpfeed_worker attend`: does splitting this problem change its numbers?

#ifndef CPFEED_CLIENT_WORKER_ATTEND_COMMAND_H_
#define CPFEED_CLIENT_WORKER_ATTEND_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <istream>
#include <ostream>

#include "client/worker/case_flags.h"

namespace cpfeed {

// Reads the case (AttentionCaseFromJson) from the file that `flags` name ("-"
// is `in`), runs it and writes to `out`: as JSON one object,
//   {"status": "OK", "out", "lse", "dq", "dk", "dv", "max_difference",
//    "bytes_received", "lse_bytes_received", "backward_bytes_received"}
// with arrays in stream order, [T][heads][columns] (lse [T][heads], -inf as
// null), the gradients only if the case has a dout, and bytes by rank; else a
// line for people. An error goes to `out` as {"status", "reason", "message"},
// or to `err` as text.
//
// Returns the exit status: 0, 2 where the input or a flag is wrong or the
// exchange refuses, 1 for other failures.
int RunAttend(const CaseFlags& flags, std::istream& in, std::ostream& out,
              std::ostream& err);

// Adds the sub-command. When it is chosen, `run` is set to what runs it and
// returns the exit status; `run` outlives the parsing.
void RegisterAttend(CLI::App& app, std::function<int()>& run);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_ATTEND_COMMAND_H_
