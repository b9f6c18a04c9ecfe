// `cpfeed_worker gated_delta`: does splitting this problem change its numbers?

#ifndef CPFEED_CLIENT_WORKER_DELTA_COMMAND_H_
#define CPFEED_CLIENT_WORKER_DELTA_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <istream>
#include <ostream>

#include "client/worker/case_flags.h"

namespace cpfeed {

// Reads the case (DeltaCaseFromJson) from the file that `flags` name ("-" is
// `in`), runs it and writes to `out`: as JSON one object,
//   {"status": "OK", "out", "final_state", "conv_out", "g", "beta", "grad": {},
//    "max_difference", "bytes_received", "backward_bytes_received"}
// with the arrays of DeltaResult, conv_out, g and beta only if the case has
// mixed_qkv, grad only if it has a dout, and bytes by rank; else a line for
// people. An error goes to `out` as {"status", "reason", "message"}, or to
// `err` as text.
//
// Returns the exit status: 0, 2 where the input or a flag is wrong, 1 for other
// failures.
int RunGatedDelta(const CaseFlags& flags, std::istream& in, std::ostream& out,
                  std::ostream& err);

// Adds the sub-command. When it is chosen, `run` is set to what runs it and
// returns the exit status; `run` outlives the parsing.
void RegisterGatedDelta(CLI::App& app, std::function<int()>& run);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_DELTA_COMMAND_H_
