#include "core/attention/make_kv_exchange.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/attention/allgather_exchange.h"
#include "core/attention/alltoall_exchange.h"
#include "core/attention/hierarchical_exchange.h"
#include "core/attention/planned_exchange.h"
#include "core/attention/ring_exchange.h"
#include "core/base/error.h"

namespace cpfeed {
namespace {

template <class Exchange>
std::unique_ptr<KvExchange> Make(const KvExchangeOptions&) {
  return std::make_unique<Exchange>();
}

template <>
std::unique_ptr<KvExchange> Make<HierarchicalExchange>(
    const KvExchangeOptions& options) {
  return std::make_unique<HierarchicalExchange>(options.inner_size);
}

constexpr struct {
  absl::string_view name;
  std::unique_ptr<KvExchange> (*make)(const KvExchangeOptions&);
} kExchanges[] = {
    {"ring", Make<RingExchange>},
    {"allgather", Make<AllgatherExchange>},
    {"alltoall", Make<AlltoallExchange>},
    {"hierarchical", Make<HierarchicalExchange>},
    {"planned", Make<PlannedExchange>},
};

}  // namespace

std::vector<std::string> KvExchangeNames() {
  std::vector<std::string> names;
  for (const auto& exchange : kExchanges) names.emplace_back(exchange.name);
  return names;
}

absl::StatusOr<std::unique_ptr<KvExchange>> MakeKvExchange(
    absl::string_view name, const KvExchangeOptions& options) {
  if (options.inner_size < 1) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("inner_size is ", options.inner_size,
                                        "; must be at least 1"));
  }
  for (const auto& exchange : kExchanges) {
    if (exchange.name == name) return exchange.make(options);
  }
  return InvalidArgument(
      kBadOption, absl::StrCat("exchange is \"", name, "\"; must be one of ",
                               absl::StrJoin(KvExchangeNames(), ", ")));
}

}  // namespace cpfeed
