// Packs for the tests of plans, in short notation and at random.

#ifndef CPFEED_TESTS_CORE_PLAN_PACKS_H_
#define CPFEED_TESTS_CORE_PLAN_PACKS_H_

#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/batch/packed_lengths.h"
#include "core/plan/layout_spec.h"

namespace cpfeed::testing {

// One row of sequences.
PackedLengths OneRow(std::vector<int64_t> real, std::vector<int64_t> padded);

// One row of sequences without padding.
PackedLengths OneRow(std::vector<int64_t> lengths);

// Rows of slots without padding.
PackedLengths Rows(const std::vector<std::vector<int64_t>>& slots);

// The numbers of a list such as "0 1 6..9" (both ends included).
std::vector<int32_t> Numbers(absl::string_view list);

// What a random pack must keep, so that each layout finds packs that it takes.
struct PackShape {
  int64_t slot_multiple = 1;
  int64_t row_multiple = 1;  // At least slot_multiple, and a multiple of it.
  bool padding = true;       // Real lengths may be below their slots.
};

// A few rows of a few sequences each; sometimes slots or real lengths are 0,
// most are short, some are of hundreds of tokens.
PackedLengths RandomPack(const PackShape& shape, std::mt19937& random);

// Every layout, with small parameters so that small packs are cut in many
// pieces.
std::vector<LayoutSpec> TestSpecs();

// A random pack that the layout takes on so many ranks.
PackedLengths PackFor(const LayoutSpec& spec, int cp_size,
                      std::mt19937& random);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_PLAN_PACKS_H_
