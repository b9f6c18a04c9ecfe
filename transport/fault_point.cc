#include "transport/fault_point.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/error.h"

namespace cpfeed {
namespace internal_fault_point {

std::atomic<bool> armed{false};

namespace {

constexpr absl::string_view kNames[] = {
    "client_read", "client_write", "ingest_read", "ingest_write",
    "publish",     "shard_read",   "shard_write"};

std::string& Name() {
  static std::string& name = *new std::string();
  return name;
}

std::atomic<int64_t> left{0};

}  // namespace

void Reach(absl::string_view name) {
  if (name != Name() || --left != 0) return;
  kill(getpid(), SIGKILL);
  // No other thread gets further either.
  while (true) pause();
}

}  // namespace internal_fault_point

absl::Status ArmFaultPoint(const std::string& name_and_count) {
  using internal_fault_point::kNames;
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(name_and_count, absl::MaxSplits(':', 1));
  int64_t count = 0;
  const bool known = std::find(std::begin(kNames), std::end(kNames),
                               parts.first) != std::end(kNames);
  if (!known || !absl::SimpleAtoi(parts.second, &count) || count < 1) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("fault point is ", name_and_count,
                                        "; must be NAME:N with N at least 1"));
  }
  internal_fault_point::Name() = parts.first;
  internal_fault_point::left = count;
  internal_fault_point::armed = true;
  return absl::OkStatus();
}

}  // namespace cpfeed
