#include "core/comm/agreement.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/collectives.h"

namespace cpfeed {
namespace {

// `value_name(value)` is how a value is written in the message.
template <class T, class ValueName>
absl::Status CheckAgreement(Communicator& group, absl::string_view what,
                            T value, absl::string_view reason,
                            ValueName value_name) {
  std::vector<T> values(group.size());
  const std::vector<int64_t> sizes(group.size(), sizeof(T));
  CF_RETURN_IF_ERROR(AllGather(
      group, {reinterpret_cast<const std::byte*>(&value), sizeof(T)}, sizes,
      {reinterpret_cast<std::byte*>(values.data()),
       values.size() * sizeof(T)}));
  std::map<T, std::vector<int>> ranks_of;
  for (int rank = 0; rank < group.size(); ++rank) {
    ranks_of[values[rank]].push_back(rank);
  }
  if (ranks_of.size() == 1) return absl::OkStatus();
  std::vector<std::string> views;
  for (const auto& [other, ranks] : ranks_of) {
    views.push_back(absl::StrFormat("%s on rank%s %s", value_name(other),
                                    ranks.size() > 1 ? "s" : "",
                                    absl::StrJoin(ranks, ", ")));
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, reason,
                   absl::StrCat(what, " is ", absl::StrJoin(views, " and "),
                                "; must be equal"));
}

}  // namespace

absl::Status CheckDigestAgreement(Communicator& group, uint64_t digest) {
  return CheckAgreement(
      group, "plan digest", digest, kPlanMismatch,
      [](uint64_t value) { return absl::StrFormat("0x%016x", value); });
}

absl::Status CheckStepAgreement(Communicator& group, int64_t step) {
  return CheckAgreement(group, "step", step, kOutOfOrder, [](int64_t value) {
    return value < 0 ? std::string("the end") : absl::StrCat(value);
  });
}

}  // namespace cpfeed
