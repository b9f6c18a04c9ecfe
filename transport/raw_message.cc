#include "transport/raw_message.h"

#include <grpcpp/support/slice.h>

#include <memory>
#include <utility>
#include <vector>

namespace cpfeed {
namespace {

constexpr int64_t kCopyBytes = 512;

grpc::Slice ToSlice(const Buffer::Fragment& fragment) {
  const auto size = static_cast<size_t>(fragment.size);
  if (fragment.size <= kCopyBytes) return grpc::Slice(fragment.data, size);
  using Owner = std::shared_ptr<const void>;
  return grpc::Slice(
      const_cast<std::byte*>(fragment.data), size,
      [](void* owner) { delete static_cast<Owner*>(owner); },
      new Owner(fragment.owner));
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(const Buffer& buffer) {
  std::vector<grpc::Slice> slices;
  slices.reserve(buffer.fragments().size());
  for (const Buffer::Fragment& fragment : buffer.fragments()) {
    slices.push_back(ToSlice(fragment));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::Status FromByteBuffer(const grpc::ByteBuffer& bytes, Buffer& buffer) {
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  grpc::Status status = bytes.Dump(slices.get());
  if (!status.ok()) return status;
  buffer = Buffer();
  for (const grpc::Slice& slice : *slices) {
    buffer.Append(Buffer::Fragment{
        .owner = slices,
        .data = reinterpret_cast<const std::byte*>(slice.begin()),
        .size = static_cast<int64_t>(slice.size())});
  }
  return grpc::Status::OK;
}

}  // namespace cpfeed
