#include "core/comm/digest_agreement.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/comm/collectives.h"

namespace cpfeed {

absl::Status CheckDigestAgreement(Communicator& group, uint64_t digest) {
  std::vector<uint64_t> digests(group.size());
  const std::vector<int64_t> sizes(group.size(), sizeof(digest));
  CF_RETURN_IF_ERROR(AllGather(
      group, {reinterpret_cast<const std::byte*>(&digest), sizeof(digest)},
      sizes,
      {reinterpret_cast<std::byte*>(digests.data()),
       digests.size() * sizeof(digest)}));
  std::map<uint64_t, std::vector<int>> ranks_of;
  for (int rank = 0; rank < group.size(); ++rank) {
    ranks_of[digests[rank]].push_back(rank);
  }
  if (ranks_of.size() == 1) return absl::OkStatus();
  std::vector<std::string> views;
  for (const auto& [value, ranks] : ranks_of) {
    views.push_back(absl::StrFormat("0x%016x on rank%s %s", value,
                                    ranks.size() > 1 ? "s" : "",
                                    absl::StrJoin(ranks, ", ")));
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition, kPlanMismatch,
      absl::StrCat("plan digest is ", absl::StrJoin(views, " and "),
                   "; must be equal"));
}

}  // namespace cpfeed
