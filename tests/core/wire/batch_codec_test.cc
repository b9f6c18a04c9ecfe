#include "core/wire/batch_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/batch/packed_batch.h"
#include "core/batch/validate_batch.h"
#include "core/tensor/tensor.h"
#include "core/wire/tensor_codec.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/random_batches.h"
#include "tests/testing/random_cut.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingBatch;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::Ragged;
using ::cpfeed::testing::RandomBatch;
using ::cpfeed::testing::RandomlyCut;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kRoomy = int64_t{1} << 40;

std::string StringOf(const Buffer& buffer) {
  std::string bytes(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(bytes.data());
  return bytes;
}

void ExpectSame(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.dtype, expected.dtype);
  EXPECT_EQ(actual.shape, expected.shape);
  EXPECT_EQ(StringOf(actual.bytes), StringOf(expected.bytes));
}

void ExpectSame(const std::optional<RaggedLengths>& actual,
                const std::optional<RaggedLengths>& expected) {
  ASSERT_EQ(actual.has_value(), expected.has_value());
  if (!actual) return;
  EXPECT_EQ(actual->values, expected->values);
  EXPECT_EQ(actual->row_splits, expected->row_splits);
}

void ExpectSame(const PackedBatch& actual, const PackedBatch& expected) {
  ExpectSame(actual.input_ids, expected.input_ids);
  ExpectSame(actual.labels, expected.labels);
  ExpectSame(actual.position_ids, expected.position_ids);
  ExpectSame(actual.attention_mask, expected.attention_mask);
  ExpectSame(actual.padding_mask, expected.padding_mask);
  ExpectSame(actual.seq_lens, expected.seq_lens);
  ExpectSame(actual.seq_lens_padded, expected.seq_lens_padded);
  ASSERT_EQ(actual.extras.size(), expected.extras.size());
  for (size_t i = 0; i < actual.extras.size(); ++i) {
    EXPECT_EQ(actual.extras[i].name, expected.extras[i].name);
    EXPECT_EQ(actual.extras[i].sequence_axis, expected.extras[i].sequence_axis);
    ExpectSame(actual.extras[i].tensor, expected.extras[i].tensor);
  }
}

TEST(BatchCodecTest, DecodingUndoesEncoding) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    PackedBatch batch = RandomBatch({.num_rows = 2}, random);
    if (round % 3 == 0) batch.padding_mask = batch.labels;
    if (round % 4 == 0) batch.attention_mask = batch.labels;
    const std::string state(round % 5 * 100, 's');
    const EncodedBatch encoded = EncodeBatch(batch, state);
    ASSERT_THAT(CheckBatchHeader(encoded.header, kRoomy),
                IsOkAndHolds(encoded.payload.size()));
    const auto decoded =
        DecodeBatch(encoded.header, RandomlyCut(encoded.payload, 99, random));
    ASSERT_THAT(decoded, IsOk());
    EXPECT_EQ(decoded->producer_state, state);
    ExpectSame(decoded->batch, batch);
    if (HasFailure()) return;
  }
}

TEST(BatchCodecTest, BytesAreSharedBothWays) {
  const PackedBatch batch = CountingBatch(2, 4);
  const EncodedBatch encoded = EncodeBatch(batch, "");
  EXPECT_EQ(encoded.payload.fragments()[0].data, batch.input_ids.bytes.data());
  const auto decoded = DecodeBatch(encoded.header, encoded.payload);
  ASSERT_THAT(decoded, IsOk());
  EXPECT_EQ(decoded->batch.labels.bytes.data(), batch.labels.bytes.data());
}

TEST(BatchCodecTest, LengthsTravelAsTheyAreEvenWhereTheyAreWrong) {
  // It is the server that tells row and sequence.
  PackedBatch batch = CountingBatch(2, 4);
  batch.seq_lens = Ragged({{3}, {2, 2}});
  batch.seq_lens_padded = Ragged({{2, 2}, {}});
  EncodedBatch encoded = EncodeBatch(batch, "");
  ExpectSame(DecodeBatch(encoded.header, encoded.payload)->batch, batch);
  batch.seq_lens.reset();
  encoded = EncodeBatch(batch, "");
  ExpectSame(DecodeBatch(encoded.header, encoded.payload)->batch, batch);
  batch.seq_lens = RaggedLengths();  // Not even of no rows.
  EXPECT_EQ(EncodeBatch(batch, "").header.tensors(1).name(), "seq_lens");
}

TEST(BatchCodecTest, RowsWithoutSequencesTravel) {
  PackedBatch batch = CountingBatch(2, 4);
  batch.seq_lens = Ragged({{}, {}});
  const EncodedBatch encoded = EncodeBatch(batch, "");
  ExpectSame(DecodeBatch(encoded.header, encoded.payload)->batch, batch);
}

struct BadHeader {
  std::string name;
  std::function<void(v1::BatchHeader&)> spoil;
  std::string reason;
  std::string message;
};

class BadHeaderTest : public ::testing::TestWithParam<BadHeader> {};

TEST_P(BadHeaderTest, IsRefused) {
  v1::BatchHeader header = EncodeBatch(CountingBatch(2, 4), "abc").header;
  ASSERT_THAT(CheckBatchHeader(header, 131), IsOkAndHolds(131));
  GetParam().spoil(header);
  const auto bytes = CheckBatchHeader(header, 131);
  EXPECT_THAT(bytes, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr(GetParam().message)));
  EXPECT_THAT(bytes, HasReason(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadHeaderTest,
    ::testing::ValuesIn(std::vector<BadHeader>{
        {"NegativeSequence", [](auto& h) { h.set_sequence(-1); },
         kBatchMalformed, "sequence is -1; must not be negative"},
        {"LongBatchId", [](auto& h) { h.set_batch_id(std::string(257, 'i')); },
         kBatchMalformed, "batch_id has 257 bytes; must be at most 256"},
        {"NegativeState", [](auto& h) { h.set_producer_state_bytes(-1); },
         kBatchMalformed, "producer_state has -1 bytes; must be 0 to 65536"},
        {"LargeState", [](auto& h) { h.set_producer_state_bytes(65537); },
         kBatchMalformed, "producer_state has 65537 bytes"},
        // The limit is of the whole payload: a credit of that size covers it.
        {"StateAboveTheLimit", [](auto& h) { h.set_producer_state_bytes(4); },
         kBatchTooLarge, "batch has 132 bytes; must be at most 131;"},
        {"TensorAboveTheLimit",
         [](auto& h) { h.mutable_tensors(0)->set_shape(0, 3); }, kBatchTooLarge,
         "batch has 163 bytes; must be at most 131;"},
        {"AboveTwoGibibytes",
         [](auto& h) { h.mutable_tensors(0)->set_shape(0, 1 << 28); },
         kBatchTooLarge,
         "batch has 8589934659 bytes; must be at most 131 (and is above 2 "
         "GiB)"},
        {"OverflowWithState",
         [](auto& h) {
           h.mutable_tensors()->Clear();
           v1::TensorSpec& spec = *h.add_tensors();
           spec.set_name("x");
           spec.set_dtype(v1::DTYPE_BOOL);
           spec.add_shape(INT64_MAX);
         },
         kBatchTooLarge, "batch has 2^63 bytes"},
        {"NegativeShape",
         [](auto& h) { h.mutable_tensors(1)->set_shape(1, -4); },
         kShapeMismatch, "tensor labels: shape [2, -4]"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(DecodeBatchTest, PayloadMustBeThatOfTheHeader) {
  const EncodedBatch encoded = EncodeBatch(CountingBatch(2, 4), "abc");
  const auto decode = [&](int64_t size) {
    return DecodeBatch(encoded.header, encoded.payload.Slice(0, size));
  };
  EXPECT_THAT(decode(131), IsOk());
  EXPECT_THAT(decode(130), StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("payload has 127 bytes")));
  EXPECT_THAT(decode(2), StatusIs(absl::StatusCode::kInvalidArgument,
                                  AllOf(HasSubstr("payload has 2 bytes"),
                                        HasSubstr("alone has 3"))));
}

// Batches of tensors, some of which are wrong.
class LengthTensorsTest : public ::testing::Test {
 protected:
  LengthTensorsTest() {
    const PackedBatch batch = CountingBatch(2, 4);
    EncodeTensor("input_ids", batch.input_ids, 0, specs_, payload_);
    EncodeTensor("labels", batch.labels, 0, specs_, payload_);
  }

  template <class T>
  void Add(const std::string& name, Shape shape, std::vector<T> values) {
    EncodeTensor(name, Tensor::FromVector<T>(std::move(shape), values), 0,
                 specs_, payload_);
  }

  absl::StatusOr<PackedBatch> Decode() const {
    v1::BatchHeader header;
    *header.mutable_tensors() = specs_;
    EXPECT_THAT(CheckBatchHeader(header, kRoomy),
                IsOkAndHolds(payload_.size()));
    absl::StatusOr<WireBatch> batch = DecodeBatch(header, payload_);
    if (!batch.ok()) return batch.status();
    return batch->batch;
  }

  void ExpectRefusal(const std::string& reason, const std::string& message) {
    const auto batch = Decode();
    EXPECT_THAT(batch, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr(message)));
    EXPECT_THAT(batch, HasReason(reason));
  }

  TensorSpecs specs_;
  Buffer payload_;
};

TEST_F(LengthTensorsTest, RectangularLengthsHaveEquallyManyInEachRow) {
  Add<int32_t>("seq_lens", {2, 3}, {1, 3, -1000, 4, -1000, -1000});
  const auto batch = Decode();
  ASSERT_THAT(batch, IsOk());
  EXPECT_THAT(batch->seq_lens->row_splits, ElementsAre(0, 3, 6));
  EXPECT_THAT(batch->seq_lens->values,
              ElementsAre(1, 3, -1000, 4, -1000, -1000));
  EXPECT_FALSE(batch->seq_lens_padded.has_value());
}

TEST_F(LengthTensorsTest, CountsCutAListOfLengths) {
  Add<int64_t>("sequences_per_row", {2}, {2, 1});
  Add<int32_t>("seq_lens", {3}, {1, 3, 4});
  Add<int32_t>("seq_lens_padded", {3}, {1, 3, 4});
  const auto batch = Decode();
  ASSERT_THAT(batch, IsOk());
  EXPECT_THAT(batch->seq_lens->row_splits, ElementsAre(0, 2, 3));
  EXPECT_THAT(batch->seq_lens_padded->row_splits, ElementsAre(0, 2, 3));
}

TEST_F(LengthTensorsTest, ListWithoutCountsIsRefused) {
  Add<int32_t>("seq_lens", {2}, {4, 4});
  ExpectRefusal(kLengthsInconsistent, "seq_lens has shape [2]; must be [rows");
}

TEST_F(LengthTensorsTest, ThreeAxesAreRefused) {
  Add<int32_t>("seq_lens", {2, 1, 1}, {4, 4});
  ExpectRefusal(kLengthsInconsistent, "seq_lens has shape [2, 1, 1]");
}

TEST_F(LengthTensorsTest, CountsMustSumToTheLengths) {
  Add<int64_t>("sequences_per_row", {2}, {2, 2});
  Add<int32_t>("seq_lens", {3}, {1, 3, 4});
  ExpectRefusal(kLengthsInconsistent,
                "sequences_per_row sums to 4; seq_lens has 3 entries");
}

TEST_F(LengthTensorsTest, NegativeCountIsRefused) {
  Add<int64_t>("sequences_per_row", {2}, {4, -1});
  Add<int32_t>("seq_lens", {3}, {1, 3, 4});
  ExpectRefusal(kLengthsInconsistent, "row 1 is -1; must not be negative");
}

TEST_F(LengthTensorsTest, SumOfCountsMayNotOverflow) {
  Add<int64_t>("sequences_per_row", {2}, {INT64_MAX, INT64_MAX});
  Add<int32_t>("seq_lens", {3}, {1, 3, 4});
  ExpectRefusal(kLengthsInconsistent, "row 1 is 9223372036854775807");
}

TEST_F(LengthTensorsTest, FloatsAreNoLengths) {
  Add<float>("seq_lens", {2, 1}, {4, 4});
  ExpectRefusal(kBatchMalformed,
                "seq_lens: dtype is float32; must be an integer");
}

TEST_F(LengthTensorsTest, FloatsAreNoCounts) {
  Add<float>("sequences_per_row", {2}, {1, 1});
  Add<int32_t>("seq_lens", {2}, {4, 4});
  ExpectRefusal(kBatchMalformed, "sequences_per_row: dtype is float32");
}

// Without the lengths that the loader forgot, documents would see each other.
TEST_F(LengthTensorsTest, CountsWithoutLengthsAreRefused) {
  Add<int64_t>("sequences_per_row", {2}, {2, 1});
  ExpectRefusal(kLengthsInconsistent, "sequences_per_row is given");
}

TEST_F(LengthTensorsTest, CountsBesideRectangularLengthsAreRefused) {
  Add<int64_t>("sequences_per_row", {2}, {2, 1});
  Add<int32_t>("seq_lens", {2, 1}, {4, 4});
  ExpectRefusal(kLengthsInconsistent, "must come with seq_lens [all");
}

TEST_F(LengthTensorsTest, RowsThatTakeNoBytesAreCounted) {
  v1::TensorSpec& spec = *specs_.Add();
  spec.set_name("seq_lens");
  spec.set_dtype(v1::DTYPE_INT64);
  spec.add_shape(int64_t{1} << 59);
  spec.add_shape(0);
  ExpectRefusal(kBatchTooLarge, "128 bytes has 576460752303423488 lengths");
}

TEST_F(LengthTensorsTest, ColumnsOfNoRowsAreFine) {
  v1::TensorSpec& spec = *specs_.Add();
  spec.set_name("seq_lens");
  spec.set_dtype(v1::DTYPE_INT64);
  spec.add_shape(0);
  spec.add_shape(int64_t{1} << 59);
  EXPECT_THAT(Decode(), IsOk());
}

TEST_F(LengthTensorsTest, NarrowLengthsMayNotBeMoreThanMemoryIsChargedFor) {
  Add<uint8_t>("seq_lens", {2, 64}, std::vector<uint8_t>(128, 0));
  ExpectRefusal(kBatchTooLarge,
                "batch of 256 bytes has 130 lengths; must be at most one");
}

TEST_F(LengthTensorsTest, NarrowLengthsOfFewSequencesAreFine) {
  Add<uint8_t>("seq_lens", {2, 1}, {4, 4});
  EXPECT_THAT(Decode(), IsOk());
}

TEST(DecodeBatchErrorTest, BatchWithoutIdsIsNone) {
  v1::BatchHeader header;
  EXPECT_THAT(DecodeBatch(header, Buffer()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("batch has no input_ids")));
}

// ---- PutBatch ----

v1::PutBatchRequest TwoRows() {
  v1::PutBatchRequest request;
  for (int row = 0; row < 2; ++row) {
    v1::BatchRow& proto = *request.add_rows();
    for (int i = 0; i < 4; ++i) {
      proto.add_input_ids(10 * row + i);
      proto.add_labels(10 * row + i + 1);
    }
  }
  return request;
}

TEST(SmallBatchTest, RowsBecomeTensors) {
  v1::PutBatchRequest request = TwoRows();
  request.set_producer_state("state");
  for (v1::BatchRow& row : *request.mutable_rows()) {
    row.mutable_position_ids()->CopyFrom(row.labels());
  }
  const auto batch = DecodeSmallBatch(request);
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->producer_state, "state");
  ExpectSame(batch->batch.input_ids,
             Tensor::FromVector<int64_t>({2, 4}, {0, 1, 2, 3, 10, 11, 12, 13}));
  ExpectSame(batch->batch.position_ids, batch->batch.labels);
  EXPECT_FALSE(batch->batch.seq_lens.has_value());
  EXPECT_FALSE(batch->batch.seq_lens_padded.has_value());
}

TEST(SmallBatchTest, RowWithoutLengthsIsOneSequence) {
  v1::PutBatchRequest request = TwoRows();
  request.mutable_rows(0)->add_seq_lens(3);
  request.mutable_rows(0)->add_seq_lens(1);
  auto batch = DecodeSmallBatch(request);
  ASSERT_THAT(batch, IsOk());
  ExpectSame(batch->batch.seq_lens, Ragged({{3, 1}, {4}}));
  EXPECT_FALSE(batch->batch.seq_lens_padded.has_value());

  request.mutable_rows(1)->add_seq_lens(2);
  request.mutable_rows(1)->add_seq_lens_padded(4);
  batch = DecodeSmallBatch(request);
  ASSERT_THAT(batch, IsOk());
  ExpectSame(batch->batch.seq_lens, Ragged({{3, 1}, {2}}));
  ExpectSame(batch->batch.seq_lens_padded, Ragged({{3, 1}, {4}}));
  EXPECT_THAT(ValidateBatch(batch->batch, {}), IsOk());
}

TEST(SmallBatchTest, TensorsAreTakenAsTheyAre) {
  v1::PutBatchRequest request;
  const PackedBatch batch = CountingBatch(2, 4);
  *request.add_tensors() = TensorToProto({"labels", batch.labels}, true);
  *request.add_tensors() = TensorToProto({"input_ids", batch.input_ids}, false);
  *request.add_tensors() = TensorToProto({"extra", batch.labels}, false);
  request.mutable_tensors(2)->mutable_spec()->set_sequence_axis(1);
  const auto decoded = DecodeSmallBatch(request);
  ASSERT_THAT(decoded, IsOk());
  ExpectSame(decoded->batch.input_ids, batch.input_ids);
  ExpectSame(decoded->batch.labels, batch.labels);
  EXPECT_EQ(decoded->batch.extras[0].sequence_axis, 1);
}

struct BadRequest {
  std::string name;
  std::function<void(v1::PutBatchRequest&)> spoil;
  std::string message;
};

class BadSmallBatchTest : public ::testing::TestWithParam<BadRequest> {};

TEST_P(BadSmallBatchTest, IsRefused) {
  v1::PutBatchRequest request = TwoRows();
  GetParam().spoil(request);
  EXPECT_THAT(DecodeSmallBatch(request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(GetParam().message)));
}

v1::Tensor IdsTensor() {
  return TensorToProto({"input_ids", CountingBatch(1, 2).input_ids}, true);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSmallBatchTest,
    ::testing::ValuesIn(std::vector<BadRequest>{
        {"Nothing", [](auto& r) { r.clear_rows(); },
         "batch needs either rows or tensors"},
        {"RowsAndTensors", [](auto& r) { *r.add_tensors() = IdsTensor(); },
         "batch needs either rows or tensors"},
        {"RaggedIds", [](auto& r) { r.mutable_rows(1)->add_input_ids(1); },
         "row 1: input_ids has 5 values; must be 4 as in row 0"},
        {"RaggedLabels", [](auto& r) { r.mutable_rows(1)->clear_labels(); },
         "row 1: labels has 0 values; must be 4"},
        {"PositionsOfOneRow",
         [](auto& r) { r.mutable_rows(1)->add_position_ids(0); },
         "row 1: position_ids has 1 values; must be 0"},
        {"NoIds",
         [](auto& r) {
           for (auto& row : *r.mutable_rows()) row.clear_input_ids();
         },
         "batch has no input_ids"},
        {"LargeState",
         [](auto& r) { r.set_producer_state(std::string(65537, 's')); },
         "producer_state has 65537 bytes; must be at most 65536"},
        {"LongBatchId", [](auto& r) { r.set_batch_id(std::string(257, 'i')); },
         "batch_id has 257 bytes"},
        {"TensorTwice",
         [](auto& r) {
           r.clear_rows();
           *r.add_tensors() = IdsTensor();
           *r.add_tensors() = IdsTensor();
         },
         "tensor input_ids is given twice"},
        {"ManyTensors",
         [](auto& r) {
           r.clear_rows();
           for (int i = 0; i < 65; ++i) {
             *r.add_tensors() = IdsTensor();
             r.mutable_tensors(i)->mutable_spec()->set_name(absl::StrCat(i));
           }
         },
         "65 tensors; must be at most 64"},
        {"WrongTensor",
         [](auto& r) {
           r.clear_rows();
           *r.add_tensors() = IdsTensor();
           r.mutable_tensors(0)->add_integers(5);
         },
         "payload has 24 bytes; its tensors have 16"},
    }),
    [](const auto& info) { return info.param.name; });

// Whatever the header says, the answer is a batch or an error.
TEST(BatchCodecRobustnessTest, ChangedHeadersAreHarmless) {
  std::mt19937_64 random(5);
  int decoded_batches = 0;
  for (int round = 0; round < 20'000; ++round) {
    const EncodedBatch encoded =
        EncodeBatch(RandomBatch({.num_rows = 2, .most_width = 8}, random), "s");
    v1::BatchHeader header = encoded.header;
    for (v1::TensorSpec& spec : *header.mutable_tensors()) {
      spec.clear_checksum();
    }
    std::string bytes = header.SerializeAsString();
    for (uint64_t changes = random() % 4; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (!header.ParseFromString(bytes)) continue;
    const auto size = CheckBatchHeader(header, 100'000);
    if (!size.ok()) continue;
    Buffer payload = encoded.payload;
    while (payload.size() < *size) payload.Append(encoded.payload);
    const auto batch = DecodeBatch(header, payload.Slice(0, *size));
    if (!batch.ok()) continue;
    ++decoded_batches;
    ValidateBatch(batch->batch, {.num_chunks = 2}).status().IgnoreError();
  }
  EXPECT_GT(decoded_batches, 1000);
}

}  // namespace
}  // namespace cpfeed
