#include "server/session_update.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

struct Field {
  absl::string_view path;
  void (*copy)(const v1::Session& from, v1::Session& to);
};

constexpr Field kFields[] = {
    {"labels", [](const v1::Session& from,
                  v1::Session& to) { *to.mutable_labels() = from.labels(); }},
    {"lease_duration",
     [](const v1::Session& from, v1::Session& to) {
       *to.mutable_lease_duration() = from.lease_duration();
     }},
    {"delivery.max_step_skew",
     [](const v1::Session& from, v1::Session& to) {
       to.mutable_delivery()->set_max_step_skew(
           from.delivery().max_step_skew());
     }},
    {"delivery.max_uncommitted_steps",
     [](const v1::Session& from, v1::Session& to) {
       to.mutable_delivery()->set_max_uncommitted_steps(
           from.delivery().max_uncommitted_steps());
     }},
    {"delivery.poison_policy",
     [](const v1::Session& from, v1::Session& to) {
       to.mutable_delivery()->set_poison_policy(
           from.delivery().poison_policy());
     }},
    {"delivery.stall_timeout",
     [](const v1::Session& from, v1::Session& to) {
       *to.mutable_delivery()->mutable_stall_timeout() =
           from.delivery().stall_timeout();
     }},
    {"limits.memory_budget_bytes",
     [](const v1::Session& from, v1::Session& to) {
       to.mutable_limits()->set_memory_budget_bytes(
           from.limits().memory_budget_bytes());
     }},
};

absl::Status CopyField(absl::string_view path, const v1::Session& from,
                       v1::Session& to) {
  std::string known;
  for (const Field& field : kFields) {
    if (field.path == path) {
      field.copy(from, to);
      return absl::OkStatus();
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", field.path);
  }
  return InvalidField("update_mask",
                      absl::StrCat("names a field that cannot be changed; must "
                                   "be of ",
                                   known));
}

}  // namespace

absl::Status ApplyUpdate(const v1::UpdateSessionRequest& request,
                         v1::Session& session) {
  if (request.update_mask().paths().empty()) {
    return InvalidField("update_mask", "is empty; must name what to change");
  }
  for (const std::string& path : request.update_mask().paths()) {
    CF_RETURN_IF_ERROR(CopyField(path, request.session(), session));
  }
  return absl::OkStatus();
}

}  // namespace cpfeed
