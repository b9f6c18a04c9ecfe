// Short forms for passing errors on. Prefixed, because LibTorch's headers
// define CHECK, LOG and their like.

#ifndef CPFEED_CORE_BASE_STATUS_MACROS_H_
#define CPFEED_CORE_BASE_STATUS_MACROS_H_

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define CF_CONCAT_INNER(a, b) a##b
#define CF_CONCAT(a, b) CF_CONCAT_INNER(a, b)

// Returns the status of `expr` from the enclosing function unless it is OK.
#define CF_RETURN_IF_ERROR(expr)                            \
  do {                                                      \
    if (absl::Status cf_status = (expr); !cf_status.ok()) { \
      return cf_status;                                     \
    }                                                       \
  } while (false)

// Puts the value of the StatusOr `expr` into `lhs`, or returns its error:
//   CF_ASSIGN_OR_RETURN(const ShardPlan plan, PlanShards(request));
#define CF_ASSIGN_OR_RETURN(lhs, expr) \
  CF_ASSIGN_OR_RETURN_INNER(CF_CONCAT(cf_statusor_, __LINE__), lhs, expr)
#define CF_ASSIGN_OR_RETURN_INNER(statusor, lhs, expr)     \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)

// Ends the process when an invariant of our own is broken. Never for input,
// peers or the network.
#define CF_CHECK(condition)                                           \
  do {                                                                \
    if (!(condition)) {                                               \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, \
                   __LINE__, #condition);                             \
      std::abort();                                                   \
    }                                                                 \
  } while (false)

#endif  // CPFEED_CORE_BASE_STATUS_MACROS_H_
