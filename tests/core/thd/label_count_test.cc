#include "core/thd/label_count.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/testing/packed_batches.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::Fragmented;

// Property: the count is that of an obvious loop, for every dtype and however
// the bytes are cut.
TEST(CountLabelTokensTest, FragmentsDoNotMatter) {
  std::mt19937_64 random(1);
  for (const int64_t size : {1, 2, 63, 64, 65, 300}) {
    std::vector<int64_t> wide(size);
    std::vector<int32_t> narrow(size);
    int64_t expected = 0;
    for (int64_t i = 0; i < size; ++i) {
      wide[i] = random() % 2 ? -100 : static_cast<int64_t>(random() % 90);
      narrow[i] = static_cast<int32_t>(wide[i]);
      expected += wide[i] != -100;
    }
    const Tensor labels64 = Tensor::FromVector({size}, wide);
    const Tensor labels32 = Tensor::FromVector({size}, narrow);
    for (const int64_t fragment : {3, 8, 100, 10000}) {
      EXPECT_EQ(CountLabelTokens(Fragmented(labels64, fragment)), expected);
      EXPECT_EQ(CountLabelTokens(Fragmented(labels32, fragment)), expected);
    }
  }
}

TEST(CountLabelTokensTest, NarrowLabelsDoNotOverflowTheirCounter) {
  Tensor labels = Tensor::FromVector({1000}, std::vector<uint8_t>(1000, 5));
  labels.dtype = DType::kInt8;
  EXPECT_EQ(CountLabelTokens(labels), 1000);
  labels.dtype = DType::kInt16;
  labels.shape = {500};
  EXPECT_EQ(CountLabelTokens(labels), 500);
}

// A label that differs from -100 in its high bytes only is a label.
TEST(CountLabelTokensTest, AllBytesCount) {
  const Tensor labels =
      Tensor::FromVector<int64_t>({2}, {-100, (int64_t{1} << 32) - 100});
  EXPECT_EQ(CountLabelTokens(labels), 1);
}

}  // namespace
}  // namespace cpfeed
