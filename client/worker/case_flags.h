// The flags of the commands that run one case over ranks of this process.

#ifndef CPFEED_CLIENT_WORKER_CASE_FLAGS_H_
#define CPFEED_CLIENT_WORKER_CASE_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <istream>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/worker/rank_threads.h"
#include "core/plan/layout_spec.h"
#include "core/tensor/dtype.h"

namespace cpfeed {

// Ranks are threads of this process.
inline constexpr int64_t kMaxCaseRanks = 256;

// As they stand on the command line; numbers are text, so that a wrong one is
// answered like any other wrong input.
struct CaseFlags {
  std::string input;
  std::string ranks = "1";
  std::string layout;
  bool uneven = false;
  std::string stripe_width;
  std::string chunk_size;
  bool keep_padding = false;
  std::string token_multiple;
  std::string exchange = "ring";  // These two are of `attend` alone.
  std::string inner_size = "2";
  std::string dtype = "float32";
  std::string transport = "loopback";
  std::string timeout = "60";
  bool json = false;
};

// What they mean, but for what is of one command alone.
struct CaseOptions {
  LayoutSpec layout;
  DType dtype = DType::kFloat32;
  RankThreadsOptions threads;
};

// Errors:
//   INVALID_ARGUMENT  BAD_OPTION: a number is none or out of range, or a name
//                     is unknown.
absl::StatusOr<CaseOptions> ParseCaseFlags(const CaseFlags& flags);

// `text` as an integer in [1, most]; `name` is the flag's.
absl::StatusOr<int64_t> ParseCount(absl::string_view name,
                                   const std::string& text, int64_t most);

// Adds one option whose value is text.
void AddTextOption(CLI::App& command, const char* name, std::string& value,
                   const char* type, const std::string& help);

// Adds those that both commands have.
void AddCaseFlags(CLI::App& command, CaseFlags& flags);

// Writes the text of a command to `out`; or its error, as {"status", "reason",
// "message"} to `out` with --json, else as text to `err`. Returns the exit
// status: 0, 2 for wrong input or flags, 1 for other failures.
int FinishCase(absl::string_view command, const CaseFlags& flags,
               const absl::StatusOr<std::string>& text, std::ostream& out,
               std::ostream& err);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_CASE_FLAGS_H_
