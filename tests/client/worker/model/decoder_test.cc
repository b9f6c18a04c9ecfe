#include "client/worker/model/decoder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "core/base/status_exception.h"
#include "core/context/attention_hooks.h"

namespace cpfeed {
namespace {

using ::testing::HasSubstr;

constexpr DecoderShape kShape = {.vocab_size = 7, .width = 8};

CallArguments Positions(int64_t rows) {
  return {.tensors = {{"position_ids", at::arange(rows, at::kLong)}}};
}

// The message of what the call throws.
std::string RefusalOf(Decoder& model, const CallArguments& arguments) {
  try {
    model(at::arange(4, at::kLong), arguments);
  } catch (const StatusException& error) {
    return std::string(error.status().message());
  }
  return "";
}

TEST(DecoderTest, EqualSeedsGiveEqualModels) {
  Decoder one(kShape, 3), same(kShape, 3), other(kShape, 4);
  AttachLinearAttnPositionHooks(one);
  AttachLinearAttnPositionHooks(same);
  AttachLinearAttnPositionHooks(other);
  const at::Tensor ids = at::arange(5, at::kLong);
  const at::Tensor logits = one(ids, Positions(5));
  EXPECT_EQ(logits.sizes().vec(), (std::vector<int64_t>{5, 7}));
  EXPECT_TRUE(at::equal(logits, same(ids, Positions(5))));
  EXPECT_FALSE(at::equal(logits, other(ids, Positions(5))));
}

// Later tokens change nothing before them, in any kind of layer.
TEST(DecoderTest, TokensSeeOnlyThoseBeforeThem) {
  Decoder model(kShape, 1);
  AttachLinearAttnPositionHooks(model);
  at::Tensor ids = at::arange(6, at::kLong);
  const at::Tensor before = model(ids, Positions(6));
  ids = ids.clone();
  ids[4] = 0;
  const at::Tensor after = model(ids, Positions(6));
  EXPECT_TRUE(at::equal(before.narrow(0, 0, 4), after.narrow(0, 0, 4)));
  EXPECT_FALSE(at::equal(before[4], after[4]));
  EXPECT_FALSE(at::equal(before[5], after[5]));
}

TEST(DecoderTest, LinearAttentionWithoutThePositionHookIsRefused) {
  Decoder model(kShape, 1);
  EXPECT_THAT(RefusalOf(model, Positions(4)),
              HasSubstr("was handed 0 positions for 4 rows"));
}

TEST(DecoderTest, AMaskIsRefusedUnlessTheHookDropsIt) {
  Decoder model(kShape, 1);
  AttachLinearAttnPositionHooks(model);
  CallArguments arguments = Positions(4);
  arguments.tensors["attention_mask"] = at::zeros({4, 4});
  EXPECT_THAT(RefusalOf(model, arguments),
              HasSubstr("attention_mask is given"));
  AttachContextParallelHooks(model);
  EXPECT_EQ(RefusalOf(model, arguments), "");
}

}  // namespace
}  // namespace cpfeed
