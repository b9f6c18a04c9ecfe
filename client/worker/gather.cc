#include "client/worker/gather.h"

#include <cstddef>

#include "core/base/status_macros.h"

namespace cpfeed {

template <class T>
absl::StatusOr<std::vector<std::vector<T>>> GatherAtRankZero(
    Communicator& group, absl::Span<const T> own,
    absl::Span<const int64_t> counts) {
  CF_CHECK(static_cast<int64_t>(own.size()) == counts[group.rank()]);
  std::vector<std::vector<T>> all;
  std::vector<ReceivePart> receives;
  if (group.rank() == 0) {
    for (int rank = 0; rank < group.size(); ++rank) {
      std::vector<T>& values = all.emplace_back(counts[rank]);
      receives.push_back({rank,
                          {reinterpret_cast<std::byte*>(values.data()),
                           values.size() * sizeof(T)}});
    }
  }
  const SendPart send = {
      0,
      {reinterpret_cast<const std::byte*>(own.data()), own.size() * sizeof(T)}};
  CF_RETURN_IF_ERROR(group.Exchange({send}, receives));
  return all;
}

template absl::StatusOr<std::vector<std::vector<float>>>
GatherAtRankZero<float>(Communicator&, absl::Span<const float>,
                        absl::Span<const int64_t>);
template absl::StatusOr<std::vector<std::vector<int64_t>>>
GatherAtRankZero<int64_t>(Communicator&, absl::Span<const int64_t>,
                          absl::Span<const int64_t>);

}  // namespace cpfeed
