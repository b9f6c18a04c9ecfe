// Any bytes: the frame codec reads them as protobuf does, or refuses them.
//
// Input: size of fragments (1 byte), message.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/wire/frame.h"
#include "cpfeed/v1/ingest.pb.h"
#include "cpfeed/v1/shard.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/quiet_protobuf.h"

namespace cpfeed {
namespace {

template <class Message>
void Compare(const std::string& bytes, const Buffer& cut) {
  Message decoded;
  const absl::StatusOr<Buffer> payload = DecodeMessage(cut, decoded);
  if (!payload.ok()) return;
  std::string& copy = *decoded.mutable_payload();
  copy.resize(static_cast<size_t>(payload->size()));
  payload->CopyTo(copy.data());
  Message parsed;
  CF_CHECK(parsed.ParseFromString(bytes));
  CF_CHECK(parsed.SerializeAsString() == decoded.SerializeAsString());
}

void Run(testing::FuzzInput input) {
  const size_t fragment_size = input.Byte() + 1;
  const std::string bytes = input.Rest();
  const Buffer cut = testing::Fragments(bytes, fragment_size);
  Compare<v1::PutBatchesRequest>(bytes, cut);
  Compare<v1::StreamShardsResponse>(bytes, cut);
}

}  // namespace
}  // namespace cpfeed

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cpfeed::testing::QuietProtobuf();
  cpfeed::Run(cpfeed::testing::FuzzInput(data, size));
  return 0;
}
