// The merging kernel's source, compiled for the host, against MergePart.

#include "core/attention/merge_rows_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "core/attention/merge.h"

namespace cpfeed {
namespace {

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

// A running result and a part of it, at random.
template <class T>
struct Problem {
  Problem(int64_t rows, int32_t heads, int32_t head_dim)
      : rows(rows), heads(heads), head_dim(head_dim) {
    Fill(rows * heads * head_dim, out);
    Fill(rows * heads, lse);
    Fill(rows * heads * head_dim, part_out);
    Fill(rows * heads, part_lse);
    // Some rows have seen no key yet, some see none in the part.
    for (int64_t i = 0; i < rows * heads; ++i) {
      if (random() % 5 == 0) lse[i] = -kInfinity<T>;
      if (random() % 5 == 0) part_lse[i] = -kInfinity<T>;
    }
  }

  void Fill(int64_t count, std::vector<T>& values) {
    std::normal_distribution<T> normal;
    for (int64_t i = 0; i < count; ++i) values.push_back(normal(random));
  }

  MergeRowsTask<T> Task() {
    return {
        .part_out = part_out.data(),
        .part_type = sizeof(T) == 8 ? PartType::kFloat64 : PartType::kFloat32,
        .part_row_stride = heads * head_dim,
        .part_head_stride = head_dim,
        .part_lse = part_lse.data(),
        .lse_row_stride = heads,
        .lse_head_stride = 1,
        .num_rows = rows,
        .heads = heads,
        .head_dim = head_dim,
        .out = out.data(),
        .lse = lse.data()};
  }

  std::mt19937 random{11};
  int64_t rows;
  int32_t heads;
  int32_t head_dim;
  std::vector<T> out, lse, part_out, part_lse;
};

template <class T>
class MergeRowsHostTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(MergeRowsHostTest, Types);

TYPED_TEST(MergeRowsHostTest, BitsAreThoseOfMergePart) {
  for (const int32_t head_dim : {1, 31, 32, 33, 128}) {
    Problem<TypeParam> problem(9, 3, head_dim);
    Problem<TypeParam> expected = problem;
    MergePart<TypeParam>(9, 3, head_dim, expected.part_out.data(),
                         expected.part_lse.data(), expected.out.data(),
                         expected.lse.data());
    RunMergeRowsOnHost(problem.Task());
    EXPECT_EQ(problem.out, expected.out);
    EXPECT_EQ(problem.lse, expected.lse);
  }
}

// Row i of the part is row 5, 0 or 3 of the result; others stay as they are.
TYPED_TEST(MergeRowsHostTest, RowsMayLieAnywhere) {
  Problem<TypeParam> problem(6, 2, 7);
  Problem<TypeParam> expected = problem;
  const std::vector<int64_t> rows = {5, 0, 3};
  MergeRowsTask<TypeParam> task = problem.Task();
  task.rows = rows.data();
  task.num_rows = 3;
  RunMergeRowsOnHost(task);
  for (int i = 0; i < 3; ++i) {
    MergePart<TypeParam>(1, 2, 7, expected.part_out.data() + i * 14,
                         expected.part_lse.data() + i * 2,
                         expected.out.data() + rows[i] * 14,
                         expected.lse.data() + rows[i] * 2);
  }
  EXPECT_EQ(problem.out, expected.out);
  EXPECT_EQ(problem.lse, expected.lse);
}

// lse as [heads, rows], out with columns behind those that count.
TYPED_TEST(MergeRowsHostTest, PartsMayBeStrided) {
  Problem<TypeParam> problem(4, 2, 3);
  Problem<TypeParam> expected = problem;
  MergePart<TypeParam>(4, 2, 3, expected.part_out.data(),
                       expected.part_lse.data(), expected.out.data(),
                       expected.lse.data());
  std::vector<TypeParam> wide(4 * 2 * 8, 99), by_head(8);
  for (int row = 0; row < 4; ++row) {
    for (int head = 0; head < 2; ++head) {
      by_head[head * 4 + row] = problem.part_lse[row * 2 + head];
      for (int d = 0; d < 3; ++d) {
        wide[(row * 2 + head) * 8 + d] =
            problem.part_out[(row * 2 + head) * 3 + d];
      }
    }
  }
  MergeRowsTask<TypeParam> task = problem.Task();
  task.part_out = wide.data();
  task.part_row_stride = 16;
  task.part_head_stride = 8;
  task.part_lse = by_head.data();
  task.lse_row_stride = 1;
  task.lse_head_stride = 4;
  RunMergeRowsOnHost(task);
  EXPECT_EQ(problem.out, expected.out);
  EXPECT_EQ(problem.lse, expected.lse);
}

TYPED_TEST(MergeRowsHostTest, EitherInfinityIsNoKey) {
  Problem<TypeParam> problem(3, 1, 2);
  problem.part_lse.assign(3, kInfinity<TypeParam>);
  const auto out = problem.out;
  const auto lse = problem.lse;
  RunMergeRowsOnHost(problem.Task());
  EXPECT_EQ(problem.out, out);
  EXPECT_EQ(problem.lse, lse);
}

TEST(MergeRowsHalfTest, HalvesAreReadAsTheirValues) {
  for (const PartType type : {PartType::kBfloat16, PartType::kFloat16}) {
    Problem<float> problem(1, 1, 2);
    problem.lse = {-kInfinity<float>};
    problem.part_lse = {0};
    // 1.5 and -2.
    const std::vector<uint16_t> halves =
        type == PartType::kBfloat16 ? std::vector<uint16_t>{0x3fc0, 0xc000}
                                    : std::vector<uint16_t>{0x3e00, 0xc000};
    MergeRowsTask<float> task = problem.Task();
    task.part_out = halves.data();
    task.part_type = type;
    RunMergeRowsOnHost(task);
    EXPECT_THAT(problem.out, ::testing::ElementsAre(1.5f, -2.0f));
  }
}

}  // namespace
}  // namespace cpfeed
