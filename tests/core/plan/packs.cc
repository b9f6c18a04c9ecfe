#include "tests/core/plan/packs.h"

#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/checked_math.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout.h"

namespace cpfeed::testing {
namespace {

int64_t Uniform(int64_t least, int64_t most, std::mt19937& random) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

int64_t RandomSlot(std::mt19937& random) {
  switch (Uniform(0, 9, random)) {
    case 0:
      return 0;
    case 1:
      return Uniform(100, 700, random);
    default:
      return Uniform(1, 40, random);
  }
}

int64_t RandomReal(int64_t slot, std::mt19937& random) {
  return Uniform(0, 2, random) == 0 ? slot : Uniform(0, slot, random);
}

}  // namespace

PackedLengths OneRow(std::vector<int64_t> real, std::vector<int64_t> padded) {
  const int64_t num_sequences = static_cast<int64_t>(real.size());
  return {.real = std::move(real),
          .padded = std::move(padded),
          .row_splits = {0, num_sequences}};
}

PackedLengths OneRow(std::vector<int64_t> lengths) {
  return OneRow(lengths, lengths);
}

PackedLengths Rows(const std::vector<std::vector<int64_t>>& slots) {
  PackedLengths lengths;
  lengths.row_splits = {0};
  for (const std::vector<int64_t>& row : slots) {
    lengths.padded.insert(lengths.padded.end(), row.begin(), row.end());
    lengths.row_splits.push_back(static_cast<int64_t>(lengths.padded.size()));
  }
  lengths.real = lengths.padded;
  return lengths;
}

std::vector<int32_t> Numbers(absl::string_view list) {
  std::vector<int32_t> numbers;
  for (absl::string_view part : absl::StrSplit(list, ' ', absl::SkipEmpty())) {
    const std::vector<std::string> ends = absl::StrSplit(part, "..");
    int32_t first;
    int32_t last;
    CF_CHECK(absl::SimpleAtoi(ends.front(), &first));
    CF_CHECK(absl::SimpleAtoi(ends.back(), &last));
    for (int32_t number = first; number <= last; ++number) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

PackedLengths RandomPack(const PackShape& shape, std::mt19937& random) {
  PackedLengths lengths;
  lengths.row_splits = {0};
  const int64_t num_rows = Uniform(1, 3, random);
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t num_slots = Uniform(1, 8, random);
    int64_t width = 0;
    for (int64_t i = 0; i < num_slots; ++i) {
      int64_t slot = RoundUp(RandomSlot(random), shape.slot_multiple);
      if (i + 1 == num_slots) {
        slot = RoundUp(width + slot, shape.row_multiple) - width;
      }
      width += slot;
      lengths.padded.push_back(slot);
      lengths.real.push_back(shape.padding ? RandomReal(slot, random) : slot);
    }
    lengths.row_splits.push_back(static_cast<int64_t>(lengths.padded.size()));
  }
  return lengths;
}

std::vector<LayoutSpec> TestSpecs() {
  std::vector<LayoutSpec> specs;
  for (const Layout layout : AllLayouts()) {
    specs.push_back({.layout = layout, .stripe_width = 3, .chunk_size = 16});
  }
  return specs;
}

PackedLengths PackFor(const LayoutSpec& spec, int cp_size,
                      std::mt19937& random) {
  const PadRule rule = PadRuleOf(spec, cp_size);
  PackShape shape;
  shape.row_multiple = rule.multiple;
  if (rule.scope == PadRule::Scope::kSlot) shape.slot_multiple = rule.multiple;
  return RandomPack(shape, random);
}

}  // namespace cpfeed::testing
