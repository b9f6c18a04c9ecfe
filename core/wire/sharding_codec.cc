#include "core/wire/sharding_codec.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

absl::Status CheckAtLeast(absl::string_view field, int64_t value,
                          int64_t least) {
  if (value >= least) return absl::OkStatus();
  return InvalidArgument(kBadOption,
                         absl::StrCat("sharding.", field, " is ", value,
                                      "; must be at least ", least));
}

int64_t OrDefault(int64_t value, int64_t fallback) {
  return value == 0 ? fallback : value;
}

}  // namespace

absl::StatusOr<Sharding> ShardingFromProto(const v1::ShardingSpec& proto) {
  if (!v1::Layout_IsValid(proto.layout())) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("sharding.layout is ", proto.layout(),
                                        ", which is no layout"));
  }
  Sharding sharding;
  sharding.layout = {
      .layout = static_cast<Layout>(proto.layout()),
      .uneven = proto.uneven(),
      .stripe_width = OrDefault(proto.stripe_width(), 1),
      .chunk_size = OrDefault(proto.chunk_size(), 128),
      .keep_padding = proto.keep_padding(),
      .token_multiple = OrDefault(proto.token_multiple(), 1),
  };
  CF_RETURN_IF_ERROR(
      CheckAtLeast("stripe_width", sharding.layout.stripe_width, 1));
  CF_RETURN_IF_ERROR(CheckAtLeast("chunk_size", sharding.layout.chunk_size, 1));
  CF_RETURN_IF_ERROR(
      CheckAtLeast("token_multiple", sharding.layout.token_multiple, 1));
  sharding.options = {
      .num_chunks = OrDefault(proto.num_chunks(), 1),
      .padding_token_id = proto.padding_token_id(),
      .seq_lens_padding_value = proto.has_seq_lens_padding_value()
                                    ? proto.seq_lens_padding_value()
                                    : -1000,
      .auto_fill = proto.auto_fill(),
      .auto_pad = proto.auto_pad(),
  };
  const int64_t chunks = sharding.options.num_chunks;
  if (chunks < 1 || chunks > kMaxChunks) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("sharding.num_chunks is ", chunks,
                                        "; must be 1 to ", kMaxChunks));
  }
  if (sharding.options.seq_lens_padding_value >= 0) {
    return InvalidArgument(kBadOption,
                           absl::StrCat("sharding.seq_lens_padding_value is ",
                                        sharding.options.seq_lens_padding_value,
                                        "; must be negative"));
  }
  return sharding;
}

v1::ShardingSpec ShardingToProto(const LayoutSpec& layout) {
  v1::ShardingSpec proto;
  proto.set_layout(static_cast<v1::Layout>(layout.layout));
  proto.set_uneven(layout.uneven);
  proto.set_stripe_width(layout.stripe_width);
  proto.set_chunk_size(layout.chunk_size);
  proto.set_keep_padding(layout.keep_padding);
  proto.set_token_multiple(layout.token_multiple);
  return proto;
}

}  // namespace cpfeed
