#include "core/wire/sharding_codec.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/plan/visible_keys.h"

namespace cpfeed {
namespace {

absl::Status CheckAtLeast(absl::string_view field, int64_t value,
                          int64_t least) {
  if (value >= least) return absl::OkStatus();
  return InvalidArgument(kBadOption,
                         absl::StrCat("sharding.", field, " is ", value,
                                      "; must be at least ", least));
}

absl::StatusOr<VisibleKeys> MaskFromProto(const v1::ShardingSpec& proto) {
  switch (proto.mask()) {
    case v1::MASK_KIND_UNSPECIFIED:
    case v1::MASK_KIND_CAUSAL:
      return VisibleKeys::Causal();
    case v1::MASK_KIND_FULL:
      return VisibleKeys::Full();
    case v1::MASK_KIND_WINDOW:
      CF_RETURN_IF_ERROR(CheckAtLeast("window_left", proto.window_left(), 0));
      return VisibleKeys::Window(proto.window_left());
    default:
      return InvalidArgument(kBadOption,
                             absl::StrCat("sharding.mask is ", proto.mask(),
                                          ", which is no mask"));
  }
}

void MaskToProto(const VisibleKeys& mask, v1::ShardingSpec& proto) {
  if (mask.is_causal()) {
    proto.set_mask(v1::MASK_KIND_CAUSAL);
  } else if (mask.is_full()) {
    proto.set_mask(v1::MASK_KIND_FULL);
  } else {
    proto.set_mask(v1::MASK_KIND_WINDOW);
    proto.set_window_left(mask.left);
  }
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
  if (!v1::Objective_IsValid(proto.objective())) {
    return InvalidArgument(
        kBadOption, absl::StrCat("sharding.objective is ", proto.objective(),
                                 ", which is no objective"));
  }
  CF_ASSIGN_OR_RETURN(const VisibleKeys mask, MaskFromProto(proto));
  Sharding sharding;
  sharding.layout = {
      .layout = static_cast<Layout>(proto.layout()),
      .uneven = proto.uneven(),
      .stripe_width = OrDefault(proto.stripe_width(), 1),
      .chunk_size = OrDefault(proto.chunk_size(), 128),
      .keep_padding = proto.keep_padding(),
      .token_multiple = OrDefault(proto.token_multiple(), 1),
      .objective = static_cast<Objective>(proto.objective()),
      .mask = mask,
      .linear_cost = proto.linear_cost(),
  };
  CF_RETURN_IF_ERROR(
      CheckAtLeast("stripe_width", sharding.layout.stripe_width, 1));
  CF_RETURN_IF_ERROR(CheckAtLeast("chunk_size", sharding.layout.chunk_size, 1));
  CF_RETURN_IF_ERROR(
      CheckAtLeast("token_multiple", sharding.layout.token_multiple, 1));
  CF_RETURN_IF_ERROR(
      CheckAtLeast("linear_cost", sharding.layout.linear_cost, 0));
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
  proto.set_objective(static_cast<v1::Objective>(layout.objective));
  MaskToProto(layout.mask, proto);
  proto.set_linear_cost(layout.linear_cost);
  return proto;
}

}  // namespace cpfeed
