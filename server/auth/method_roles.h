// Which roles may call which method: the one table.

#ifndef CPFEED_SERVER_AUTH_METHOD_ROLES_H_
#define CPFEED_SERVER_AUTH_METHOD_ROLES_H_

#include "absl/strings/string_view.h"
#include "server/auth/principal.h"

namespace cpfeed {

// Whether anybody may call "/package.Service/Method" without saying who they
// are: health checks, and nothing else.
bool IsOpenToAll(absl::string_view path);

// The roles of which a caller must have one. 0, nobody, for a method that the
// table does not have.
Roles RolesThatMayCall(absl::string_view path);

}  // namespace cpfeed

#endif  // CPFEED_SERVER_AUTH_METHOD_ROLES_H_
