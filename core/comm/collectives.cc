#include "core/comm/collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

absl::Status CheckSizes(absl::string_view what, absl::Span<const int64_t> sizes,
                        int group_size, size_t total) {
  if (sizes.size() != static_cast<size_t>(group_size)) {
    return InvalidArgument(kShapeMismatch,
                           absl::StrCat(what, " has ", sizes.size(),
                                        " pieces; must have ", group_size));
  }
  int64_t sum = 0;
  for (const int64_t size : sizes) {
    if (size < 0) {
      return InvalidArgument(kShapeMismatch,
                             absl::StrCat(what, " has a piece of ", size));
    }
    sum += size;
  }
  if (sum != static_cast<int64_t>(total)) {
    return InvalidArgument(
        kShapeMismatch,
        absl::StrCat(what, " has ", total, " bytes; its pieces sum to ", sum));
  }
  return absl::OkStatus();
}

// [begin, end) of elements in piece `rank`, where `count` elements are cut into
// `size` pieces that differ by one at most.
int64_t PieceBegin(int64_t count, int rank, int size) {
  return count / size * rank + std::min<int64_t>(rank, count % size);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PendingExchange>> StartRingShift(
    Communicator& group, absl::Span<const absl::Span<const std::byte>> send,
    absl::Span<const absl::Span<std::byte>> receive) {
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  std::vector<SendPart> sends;
  for (const auto bytes : send) sends.push_back({next, bytes});
  std::vector<ReceivePart> receives;
  for (const auto bytes : receive) receives.push_back({previous, bytes});
  return group.StartExchange(sends, receives);
}

absl::Status AllGather(Communicator& group, absl::Span<const std::byte> send,
                       absl::Span<const int64_t> sizes,
                       absl::Span<std::byte> receive) {
  CF_RETURN_IF_ERROR(
      CheckSizes("receive", sizes, group.size(), receive.size()));
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  size_t begin = 0;
  for (int peer = 0; peer < group.size(); ++peer) {
    sends.push_back({peer, send});
    receives.push_back({peer, receive.subspan(begin, sizes[peer])});
    begin += sizes[peer];
  }
  return group.Exchange(sends, receives);
}

absl::Status AllToAll(Communicator& group, absl::Span<const std::byte> send,
                      absl::Span<const int64_t> send_sizes,
                      absl::Span<std::byte> receive,
                      absl::Span<const int64_t> receive_sizes) {
  CF_RETURN_IF_ERROR(CheckSizes("send", send_sizes, group.size(), send.size()));
  CF_RETURN_IF_ERROR(
      CheckSizes("receive", receive_sizes, group.size(), receive.size()));
  std::vector<SendPart> sends;
  std::vector<ReceivePart> receives;
  size_t send_begin = 0;
  size_t receive_begin = 0;
  for (int peer = 0; peer < group.size(); ++peer) {
    sends.push_back({peer, send.subspan(send_begin, send_sizes[peer])});
    receives.push_back(
        {peer, receive.subspan(receive_begin, receive_sizes[peer])});
    send_begin += send_sizes[peer];
    receive_begin += receive_sizes[peer];
  }
  return group.Exchange(sends, receives);
}

absl::Status ReduceScatter(Communicator& group, DType dtype, ReduceOp op,
                           absl::Span<const std::byte> send,
                           absl::Span<const int64_t> counts,
                           absl::Span<std::byte> receive) {
  std::vector<int64_t> send_sizes(counts.begin(), counts.end());
  for (int64_t& size : send_sizes) size *= ItemSize(dtype);
  CF_RETURN_IF_ERROR(CheckSizes("send", send_sizes, group.size(), send.size()));
  const int64_t own = send_sizes[group.rank()];
  if (own != static_cast<int64_t>(receive.size())) {
    return InvalidArgument(kShapeMismatch,
                           absl::StrCat("receive has ", receive.size(),
                                        " bytes; the own piece has ", own));
  }
  std::vector<std::byte> pieces(own * group.size());
  const std::vector<int64_t> receive_sizes(group.size(), own);
  CF_RETURN_IF_ERROR(
      AllToAll(group, send, send_sizes, absl::MakeSpan(pieces), receive_sizes));
  if (own > 0) std::memcpy(receive.data(), pieces.data(), own);
  for (int peer = 1; peer < group.size(); ++peer) {
    CF_RETURN_IF_ERROR(ReduceInto(
        dtype, op, absl::MakeConstSpan(pieces).subspan(own * peer, own),
        receive));
  }
  return absl::OkStatus();
}

absl::Status AllReduce(Communicator& group, DType dtype, ReduceOp op,
                       absl::Span<std::byte> data) {
  const int64_t item_size = std::max<int64_t>(ItemSize(dtype), 1);
  const int64_t count = static_cast<int64_t>(data.size()) / item_size;
  std::vector<int64_t> counts, sizes;
  for (int peer = 0; peer < group.size(); ++peer) {
    counts.push_back(PieceBegin(count, peer + 1, group.size()) -
                     PieceBegin(count, peer, group.size()));
    sizes.push_back(counts.back() * item_size);
  }
  std::vector<std::byte> own(sizes[group.rank()]);
  CF_RETURN_IF_ERROR(
      ReduceScatter(group, dtype, op, data, counts, absl::MakeSpan(own)));
  return AllGather(group, own, sizes, data);
}

absl::Status Barrier(Communicator& group) {
  const std::byte present{1};
  std::vector<std::byte> all(group.size());
  const std::vector<int64_t> sizes(group.size(), 1);
  return AllGather(group, {&present, 1}, sizes, absl::MakeSpan(all));
}

}  // namespace cpfeed
