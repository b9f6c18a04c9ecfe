// The native mode on the inputs of the parity modes' golden cases: compared
// with an obvious reference, and with release 0.7 where that is right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/layout_spec.h"
#include "core/plan/shard_plan.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard.h"
#include "core/shard/shard_executor.h"
#include "core/tensor/tensor.h"
#include "tests/testing/golden.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::GoldenCases;
using ::cpfeed::testing::GoldenId;
using ::cpfeed::testing::HasTag;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::NativeBatchOf;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::TensorOf;
using ::nlohmann::json;
using ::testing::_;

using Ints = std::vector<int64_t>;

// Whether the real lengths of every row fill it.
bool RowsAreFull(const json& in) {
  const Ints lengths = in["seq_lens"]["v"].get<Ints>();
  const int64_t per_row = in["seq_lens"]["sh"][1];
  for (size_t row = 0; row < lengths.size(); row += per_row) {
    if (std::accumulate(lengths.begin() + row, lengths.begin() + row + per_row,
                        int64_t{0}) != in["input_ids"]["sh"][1]) {
      return false;
    }
  }
  return true;
}

// Native deviates from the list of refusals in two points: slots default to
// real lengths, and there is no qkv_format to be wrong.
bool IsRefused(const json& golden) {
  const json& reject = golden["reject"];
  if (reject.empty() || HasTag(golden, "qkv_format")) return false;
  return reject[0] != "missing seq_lens_padded" || !RowsAreFull(golden["in"]);
}

Ints Lengths(const json& golden, const std::string& key, int64_t chunk) {
  const Tensor tensor = TensorOf(golden["in"][key]);
  const int64_t rows =
      tensor.shape[0] / golden["args"]["num_chunks"].get<int64_t>();
  const Ints all = *tensor.ToInt64();
  Ints valid;
  for (int64_t i = chunk * rows * tensor.shape[1];
       i < (chunk + 1) * rows * tensor.shape[1]; ++i) {
    if (all[i] != golden["args"]["seq_lens_padding_value"]) {
      valid.push_back(all[i]);
    }
  }
  return valid;
}

// What one chunk must be like, by the definitions.
struct Reference {
  Reference(const json& golden, int64_t chunk)
      : real(Lengths(golden, "seq_lens", chunk)),
        padded(golden["in"].contains("seq_lens_padded") &&
                       !golden["in"]["seq_lens_padded"].is_null()
                   ? Lengths(golden, "seq_lens_padded", chunk)
                   : real) {}

  static Ints Sums(const Ints& lengths) {
    Ints sums = {0};
    for (const int64_t length : lengths) sums.push_back(sums.back() + length);
    return sums;
  }

  // Positions of rank r: of every slot the pieces r and 2 * cp - 1 - r.
  Ints Index(int64_t cp_size, int64_t rank) const {
    Ints index;
    int64_t begin = 0;
    for (const int64_t slot : padded) {
      const int64_t piece = cp_size == 1 ? slot : slot / (2 * cp_size);
      for (int64_t p = 0; p < slot; ++p) {
        const int64_t number = piece == 0 ? 0 : p / piece;
        if (number == rank ||
            (cp_size > 1 && number == 2 * cp_size - 1 - rank)) {
          index.push_back(begin + p);
        }
      }
      begin += slot;
    }
    return index;
  }

  // For each stream position its place in its slot, and whether it is padding.
  Ints Positions() const {
    Ints positions;
    for (const int64_t slot : padded) {
      for (int64_t p = 0; p < slot; ++p) positions.push_back(p);
    }
    return positions;
  }
  Ints Mask() const {
    Ints mask;
    for (size_t i = 0; i < padded.size(); ++i) {
      for (int64_t p = 0; p < padded[i]; ++p) mask.push_back(p >= real[i]);
    }
    return mask;
  }

  Ints real;
  Ints padded;
};

Ints Take(const Ints& stream, const Ints& index) {
  Ints taken;
  for (const int64_t position : index) taken.push_back(stream[position]);
  return taken;
}

const Tensor& Named(const Shard& shard, const std::string& name) {
  for (const NamedTensor& named : shard.tensors) {
    if (named.name == name) return named.tensor;
  }
  ADD_FAILURE() << "there is no " << name;
  static const auto* const kNone = new Tensor();
  return *kNone;
}

// Bytes of the input's rows of this chunk, taken by `index`, for a tensor whose
// token axes come first.
std::string TakeBytes(const Tensor& tensor, const Ints& index, int64_t first) {
  int64_t row_bytes = ItemSize(tensor.dtype);
  for (size_t axis = 2; axis < tensor.shape.size(); ++axis) {
    row_bytes *= tensor.shape[axis];
  }
  std::string bytes;
  for (const int64_t position : index) {
    std::string row(row_bytes, '\0');
    tensor.bytes.Slice((first + position) * row_bytes, row_bytes)
        .CopyTo(row.data());
    bytes += row;
  }
  return bytes;
}

std::string BytesOf(const Tensor& tensor) {
  std::string bytes(tensor.bytes.size(), '\0');
  tensor.bytes.CopyTo(bytes.data());
  return bytes;
}

void ExpectShard(const json& golden, const Shard& shard, int64_t cp_size,
                 int64_t chunk) {
  const Reference reference(golden, chunk);
  const Ints index = reference.Index(cp_size, shard.cp_rank);
  const auto actual = LocalIndex(*shard.plan, shard.cp_rank);
  ASSERT_EQ(Ints(actual.begin(), actual.end()), index);
  EXPECT_EQ(
      Ints(shard.chunk->cu_seqlens.begin(), shard.chunk->cu_seqlens.end()),
      Reference::Sums(reference.real));
  EXPECT_EQ(Ints(shard.chunk->cu_seqlens_padded.begin(),
                 shard.chunk->cu_seqlens_padded.end()),
            Reference::Sums(reference.padded));
  EXPECT_EQ(*Named(shard, "padding_mask").ToInt64(),
            Take(reference.Mask(), index));
  for (const auto& [key, value] : golden["in"].items()) {
    if (!value.is_object() || key == "seq_lens" || key == "seq_lens_padded" ||
        key == "attention_mask" || HasTag(golden, "mrope_3d_positions")) {
      continue;
    }
    const Tensor input = TensorOf(value);
    EXPECT_EQ(Named(shard, key).dtype, input.dtype);
    EXPECT_EQ(BytesOf(Named(shard, key)),
              TakeBytes(input, index, shard.chunk->source_begin))
        << key;
  }
  const json& in = golden["in"];
  if (!in.contains("position_ids") || in["position_ids"].is_null()) {
    EXPECT_EQ(*Named(shard, "position_ids").ToInt64(),
              Take(reference.Positions(), index));
  }
}

// Row `chunk` of a release's tensor where it has a chunk axis.
Ints Row(const json& flat, int64_t num_chunks, int64_t chunk) {
  const Ints values = flat["v"].get<Ints>();
  const int64_t size = static_cast<int64_t>(values.size()) / num_chunks;
  return Ints(values.begin() + chunk * size,
              values.begin() + (chunk + 1) * size);
}

// `upstream` is what the release returned for this rank.
void ExpectLikeUpstream(const json& golden, const json& upstream,
                        const Shard& shard, int64_t chunk) {
  const int64_t num_chunks = golden["args"]["num_chunks"];
  for (const char* key : {"labels", "position_ids", "padding_mask"}) {
    if (upstream[key].is_null()) continue;
    EXPECT_EQ(*Named(shard, key).ToInt64(),
              Row(upstream[key], num_chunks, chunk))
        << key;
  }
  if (golden["in"]["input_ids"]["dt"] != "f32") {
    EXPECT_EQ(*Named(shard, "input_ids").ToInt64(),
              Row(upstream["input_ids"], num_chunks, chunk));
  }
  if (upstream.contains("local_indices") &&
      golden["in"]["input_ids"]["sh"].size() == 2) {
    const auto index = LocalIndex(*shard.plan, shard.cp_rank);
    EXPECT_EQ(Ints(index.begin(), index.end()),
              upstream["local_indices"]["v"].get<Ints>());
  }
}

// Shards every rank; chunk by chunk, rank by rank.
void ExpectNative(const json& golden, int cp_size, const json& upstream) {
  const json& args = golden["args"];
  json adjusted = golden;
  if (golden["fn"] == "process_input_for_thd") {
    adjusted["args"]["num_chunks"] = 1;  // The function does not have it.
  }
  const auto prepared =
      PrepareBatch(NativeBatchOf(golden["in"]),
                   {.num_chunks = adjusted["args"]["num_chunks"],
                    .padding_token_id = args["padding_token_id"],
                    .seq_lens_padding_value = args["seq_lens_padding_value"]},
                   {.layout = Layout::kHeadTailPerSequence}, cp_size);
  if (IsRefused(golden)) {
    EXPECT_THAT(prepared, StatusIs(absl::StatusCode::kInvalidArgument, _));
    return;
  }
  ASSERT_THAT(prepared, IsOk());
  const auto shards =
      MakeCpuShardExecutor()->Execute(prepared->thd, prepared->plans);
  ASSERT_THAT(shards, IsOk());
  ASSERT_EQ(shards->size(), cp_size);
  for (int rank = 0; rank < cp_size; ++rank) {
    for (size_t i = 0; i < (*shards)[rank].chunks.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "rank " << rank << ", chunk " << i);
      const Shard& shard = (*shards)[rank].chunks[i];
      ExpectShard(adjusted, shard, cp_size, i);
      if (golden["reject"].empty() && !upstream.contains("err")) {
        ExpectLikeUpstream(
            adjusted,
            upstream.contains("ranks") ? upstream["ranks"][rank] : upstream,
            shard, i);
      }
    }
  }
}

class NativeGoldenTest : public ::testing::TestWithParam<json> {};

TEST_P(NativeGoldenTest, FollowsTheDefinitionsAndUpstreamWhereThatIsRight) {
  const json& golden = GetParam();
  ExpectNative(golden, golden["args"].value("cp_size", 1), golden["out"]["B2"]);
}

INSTANTIATE_TEST_SUITE_P(
    ThdConvert, NativeGoldenTest,
    ::testing::ValuesIn(GoldenCases("automodel_thd_convert.json")), GoldenId);

INSTANTIATE_TEST_SUITE_P(
    TeShard, NativeGoldenTest,
    ::testing::ValuesIn(GoldenCases("automodel_te_shard.json")), GoldenId);

}  // namespace
}  // namespace cpfeed
