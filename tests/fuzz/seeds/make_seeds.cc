// Writes the seeds of the fuzz tests: make_seeds DIRECTORY.
//
// Each is named after what it holds. Inputs that fuzzing found are put beside
// them by hand.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/base/status_macros.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout_spec.h"
#include "core/shard/prepare_batch.h"
#include "core/shard/shard_executor.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"
#include "core/wire/batch_codec.h"
#include "core/wire/frame.h"
#include "core/wire/shard_codec.h"
#include "core/wire/tensor_codec.h"
#include "cpfeed/v1/ingest.pb.h"
#include "cpfeed/v1/session.pb.h"
#include "cpfeed/v1/shard.pb.h"
#include "cpfeed/v1/tensor.pb.h"
#include "tests/testing/packed_batches.h"
#include "tests/testing/random_batches.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::CountingBatch;
using ::cpfeed::testing::CountingTensor;
using ::cpfeed::testing::Ragged;
using ::cpfeed::testing::RandomTensor;

// What a seed holds, by the name of its file.
using Seeds = std::map<std::string, std::string>;

std::string StringOf(const Buffer& buffer) {
  std::string bytes(static_cast<size_t>(buffer.size()), '\0');
  buffer.CopyTo(bytes.data());
  return bytes;
}

std::string Counted(const std::string& bytes) {
  const auto size = static_cast<uint16_t>(bytes.size());
  CF_CHECK(size == bytes.size());
  return std::string{static_cast<char>(size), static_cast<char>(size >> 8)} +
         bytes;
}

PackedBatch PackedRows() {
  PackedBatch batch = CountingBatch(2, 8);
  batch.seq_lens = Ragged({{3, 4}, {1, 0, 6}});
  batch.seq_lens_padded = Ragged({{4, 4}, {2, 0, 6}});
  return batch;
}

// Embeddings, three components of positions, extras with axes on both sides.
PackedBatch EverythingAtOnce() {
  std::mt19937_64 random(1);
  PackedBatch batch = PackedRows();
  batch.input_ids = RandomTensor(DType::kBfloat16, {2, 8, 3}, random);
  batch.labels = RandomTensor(DType::kInt8, {2, 8}, random);
  batch.position_ids = CountingTensor({3, 2, 8});
  batch.extras.push_back(
      {"loss_mask", RandomTensor(DType::kFloat32, {2, 8}, random)});
  batch.extras.push_back(
      {"patches", RandomTensor(DType::kUint8, {2, 2, 8, 1}, random), 2});
  return batch;
}

PackedBatch WithMasks() {
  PackedBatch batch = CountingBatch(2, 4);
  batch.attention_mask =
      Tensor::FromVector<int64_t>({2, 4}, {1, 1, 1, 0, 1, 1, 0, 0});
  batch.padding_mask =
      Tensor::FromVector<uint8_t>({2, 4}, {0, 0, 0, 1, 0, 0, 1, 1});
  return batch;
}

Seeds FrameSeeds() {
  v1::PutBatchesRequest batch;
  *batch.mutable_batch() = EncodeBatch(PackedRows(), "state").header;
  v1::PutBatchesRequest open;
  open.mutable_open()->set_session("sessions/a");
  open.mutable_open()->set_incarnation(7);
  v1::StreamShardsResponse chunk;
  chunk.mutable_chunk()->set_offset(300);
  const Buffer payload = Buffer::CopyOf("payload", 7);
  const std::string frame = StringOf(EncodeMessage(chunk, payload));
  return {
      {"batch_header", "\x1f" + batch.SerializeAsString()},
      {"chunk_in_one_piece", "\xff" + frame},
      {"chunk_in_many_pieces", std::string(1, '\0') + frame},
      {"empty", ""},
      {"fixed_fields", std::string("\x02\x09"
                                   "12345678"
                                   "\x0d"
                                   "1234",
                                   15)},
      {"fixed_field_cut",
       "\x02\x09"
       "123"},
      {"group", "\x10\x0b\x0c"},
      {"tag_zero", std::string("\x02\x00\x01", 3)},
      {"varint_cut", "\x02\x08\x80"},
      {"varint_too_long", "\x02\x08" + std::string(11, '\x80')},
      {"long_length", std::string("\x10\x7a\x81\x80\x80\x80\x80\x00"
                                  "a",
                                  9)},
      {"open", "\x03" + open.SerializeAsString()},
      {"payload_twice", "\x04" + frame + frame},
      {"truncated", "\x04" + frame.substr(0, frame.size() - 1)},
  };
}

// `options` are the five bytes before the header.
std::string BatchSeed(const std::string& options, const PackedBatch& batch) {
  const EncodedBatch encoded = EncodeBatch(batch, "state");
  return options + Counted(encoded.header.SerializeAsString()) +
         StringOf(encoded.payload);
}

// Rectangular lengths with filler.
std::string RectangularSeed() {
  const PackedBatch batch = CountingBatch(2, 4);
  v1::BatchHeader header;
  Buffer payload;
  TensorSpecs& specs = *header.mutable_tensors();
  EncodeTensor("seq_lens",
               Tensor::FromVector<int32_t>({2, 2}, {1, 3, 4, -1000}), 0, specs,
               payload);
  EncodeTensor("input_ids", batch.input_ids, 0, specs, payload);
  EncodeTensor("labels", batch.labels, 0, specs, payload);
  return std::string("\x01\x01\x01\x00\x10", 5) +
         Counted(header.SerializeAsString()) + StringOf(payload);
}

// A batch whose header was changed after it was encoded.
std::string BrokenBatch(const std::function<void(v1::BatchHeader&)>& change) {
  EncodedBatch encoded = EncodeBatch(PackedRows(), "state");
  change(encoded.header);
  return std::string("\x01\x01\x01\x00\x10", 5) +
         Counted(encoded.header.SerializeAsString()) +
         StringOf(encoded.payload);
}

// One for each thing that a header may have wrong.
Seeds BrokenBatches() {
  const auto tensor = [](v1::BatchHeader& header, int i) -> v1::TensorSpec& {
    return *header.mutable_tensors(i);
  };
  const auto lengths_of = [](std::vector<int64_t> counts) {
    EncodedBatch encoded;
    TensorSpecs& specs = *encoded.header.mutable_tensors();
    const auto rows = static_cast<int64_t>(counts.size());
    EncodeTensor("sequences_per_row",
                 Tensor::FromVector<int64_t>({rows}, counts), 0, specs,
                 encoded.payload);
    EncodeTensor("seq_lens", Tensor::FromVector<int64_t>({2}, {4, 4}), 0, specs,
                 encoded.payload);
    const PackedBatch batch = CountingBatch(2, 4);
    EncodeTensor("input_ids", batch.input_ids, 0, specs, encoded.payload);
    EncodeTensor("labels", batch.labels, 0, specs, encoded.payload);
    return std::string("\x01\x01\x01\x00\x10", 5) +
           Counted(encoded.header.SerializeAsString()) +
           StringOf(encoded.payload);
  };
  return {
      {"batch_id_too_long", BrokenBatch([](v1::BatchHeader& header) {
         header.set_batch_id(std::string(257, 'a'));
       })},
      {"sequence_negative",
       BrokenBatch([](v1::BatchHeader& header) { header.set_sequence(-1); })},
      {"state_too_long", BrokenBatch([](v1::BatchHeader& header) {
         header.set_producer_state_bytes(70'000);
       })},
      {"state_longer_than_payload", BrokenBatch([](v1::BatchHeader& header) {
         header.clear_tensors();
         header.set_producer_state_bytes(60'000);
       })},
      {"name_empty", BrokenBatch([&](v1::BatchHeader& header) {
         tensor(header, 0).clear_name();
       })},
      {"no_input_ids", BrokenBatch([](v1::BatchHeader& header) {
         for (v1::TensorSpec& spec : *header.mutable_tensors()) {
           if (spec.name() == "input_ids") spec.set_name("other");
         }
       })},
      {"too_many_dimensions", BrokenBatch([&](v1::BatchHeader& header) {
         for (int i = 0; i < 9; ++i) tensor(header, 0).add_shape(1);
       })},
      {"axis_out_of_range", BrokenBatch([&](v1::BatchHeader& header) {
         tensor(header, 0).set_token_axis(9);
       })},
      {"too_many_tensors", BrokenBatch([&](v1::BatchHeader& header) {
         const v1::TensorSpec one = tensor(header, 0);
         for (int i = 0; i < 65; ++i) *header.add_tensors() = one;
       })},
      {"sum_overflows", BrokenBatch([&](v1::BatchHeader& header) {
         for (int i = 0; i < 2; ++i) {
           tensor(header, i).clear_shape();
           tensor(header, i).add_shape(int64_t{1} << 59);
         }
       })},
      {"larger_than_payload", BrokenBatch([&](v1::BatchHeader& header) {
         tensor(header, 0).set_shape(0, tensor(header, 0).shape(0) + 1);
       })},
      {"sequences_negative", lengths_of({3, -1})},
      {"sequences_do_not_sum", lengths_of({1, 2})},
  };
}

Seeds BatchSeeds() {
  PackedBatch auto_filled = PackedRows();
  auto_filled.seq_lens_padded.reset();
  return {
      {"auto_filled_and_padded",
       BatchSeed(std::string("\x03\x02\x00\x06\x20", 5), auto_filled)},
      {"balanced",
       BatchSeed(std::string("\x07\x02\x00\x00\x20", 5), PackedRows())},
      {"everything_at_once",
       BatchSeed(std::string("\x03\x01\x01\x04\x04", 5), EverythingAtOnce())},
      {"packed_rows",
       BatchSeed(std::string("\x01\x01\x01\x00\xff", 5), PackedRows())},
      {"rectangular_lengths", RectangularSeed()},
      {"rows_with_masks",
       BatchSeed(std::string("\x00\x00\x00\x00\x08", 5), WithMasks())},
      {"striped",
       BatchSeed(std::string("\x04\x03\x00\x04\x08", 5), CountingBatch(1, 8))},
  };
}

v1::Tensor Numbers(DType dtype, const std::vector<int64_t>& integers,
                   const std::vector<double>& floats) {
  v1::Tensor tensor;
  tensor.mutable_spec()->set_name("numbers");
  tensor.mutable_spec()->set_dtype(static_cast<v1::DType>(dtype));
  tensor.mutable_spec()->add_shape(
      static_cast<int64_t>(std::max(integers.size(), floats.size())));
  tensor.mutable_integers()->Add(integers.begin(), integers.end());
  tensor.mutable_floats()->Add(floats.begin(), floats.end());
  return tensor;
}

// Of each dtype, and some that are wrong.
v1::PutBatchRequest NumbersOfAllKinds() {
  v1::PutBatchRequest request;
  for (const DType dtype : {DType::kBool, DType::kUint8, DType::kInt8,
                            DType::kInt16, DType::kInt32, DType::kInt64}) {
    *request.add_tensors() = Numbers(dtype, {0, 1}, {});
    *request.add_tensors() = Numbers(dtype, {-1, 1 << 20}, {});
  }
  for (const DType dtype :
       {DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    *request.add_tensors() = Numbers(dtype, {}, {0.5, -2});
    *request.add_tensors() = Numbers(dtype, {}, {1e300});
  }
  *request.add_tensors() = Numbers(DType::kInt32, {1}, {2});
  v1::Tensor& both = *request.add_tensors();
  both = Numbers(DType::kInt32, {1}, {});
  both.set_payload("1234");
  v1::Tensor& damaged = *request.add_tensors();
  damaged = Numbers(DType::kInt32, {1}, {});
  damaged.mutable_spec()->set_checksum(1);
  v1::Tensor& enormous = *request.add_tensors();
  enormous = Numbers(DType::kInt64, {}, {});
  for (int i = 0; i < 3; ++i) {
    enormous.mutable_spec()->add_shape(int64_t{1} << 40);
  }
  v1::Tensor& negative = *request.add_tensors();
  negative = Numbers(DType::kInt64, {}, {});
  negative.mutable_spec()->set_shape(0, -1);
  v1::Tensor& cut = *request.add_tensors();
  cut = Numbers(DType::kInt64, {1, 2}, {});
  cut.mutable_integers()->RemoveLast();
  return request;
}

Seeds SmallBatchSeeds() {
  v1::PutBatchRequest rows;
  for (int r = 0; r < 2; ++r) {
    v1::BatchRow& row = *rows.add_rows();
    for (int i = 0; i < 4; ++i) {
      row.add_input_ids(i);
      row.add_labels(i + 1);
    }
  }
  v1::PutBatchRequest rows_with_lengths = rows;
  v1::BatchRow& first = *rows_with_lengths.mutable_rows(0);
  first.add_seq_lens(1);
  first.add_seq_lens(2);
  first.add_seq_lens_padded(2);
  first.add_seq_lens_padded(2);
  v1::PutBatchRequest tensors;
  const PackedBatch batch = CountingBatch(2, 4);
  *tensors.add_tensors() = TensorToProto({"input_ids", batch.input_ids}, true);
  *tensors.add_tensors() = TensorToProto({"labels", batch.labels}, false);
  *tensors.add_tensors() = TensorToProto(
      {"seq_lens", Tensor::FromVector<int32_t>({2, 1}, {4, 4})}, true);
  tensors.set_producer_state("state");
  return {
      {"numbers_of_all_kinds", NumbersOfAllKinds().SerializeAsString()},
      {"rows", rows.SerializeAsString()},
      {"rows_with_lengths", rows_with_lengths.SerializeAsString()},
      {"tensors", tensors.SerializeAsString()},
  };
}

// What rank 1 of two gets; `options` are the three bytes before the header.
std::string StepSeed(const std::string& options, const PackedBatch& batch,
                     const BatchOptions& batch_options, Layout layout) {
  const auto prepared = PrepareBatch(batch, batch_options,
                                     {.layout = layout, .chunk_size = 4}, 2);
  CF_CHECK(prepared.ok());
  const auto steps =
      MakeCpuShardExecutor()->Execute(prepared->thd, prepared->plans);
  CF_CHECK(steps.ok());
  const EncodedStep step = EncodeStep((*steps)[1], 1);
  return options + Counted(step.header.SerializeAsString()) +
         StringOf(step.payload);
}

// A step whose header was changed after it was encoded.
std::string BrokenStep(const std::function<void(v1::StepHeader&)>& change) {
  const auto prepared =
      PrepareBatch(PackedRows(), {}, {.layout = Layout::kContiguous}, 2);
  CF_CHECK(prepared.ok());
  const auto steps =
      MakeCpuShardExecutor()->Execute(prepared->thd, prepared->plans);
  CF_CHECK(steps.ok());
  EncodedStep step = EncodeStep((*steps)[1], 1);
  change(step.header);
  return std::string("\x01\x01\x10", 3) +
         Counted(step.header.SerializeAsString()) + StringOf(step.payload);
}

v1::TensorSpec& SpecOf(v1::StepHeader& header, const std::string& name) {
  for (v1::TensorSpec& spec : *header.mutable_chunks(0)->mutable_tensors()) {
    if (spec.name() == name) return spec;
  }
  return *header.mutable_chunks(0)->mutable_tensors(0);
}

Seeds BrokenSteps() {
  return {
      {"rank_out_of_range",
       BrokenStep([](v1::StepHeader& header) { header.set_cp_rank(7); })},
      {"no_segments", BrokenStep([](v1::StepHeader& header) {
         SpecOf(header, "segments").set_name("others");
       })},
      {"lengths_are_no_list", BrokenStep([](v1::StepHeader& header) {
         SpecOf(header, "cu_seqlens").add_shape(1);
       })},
      {"lengths_exchanged", BrokenStep([](v1::StepHeader& header) {
         SpecOf(header, "cu_seqlens").set_name("x");
         SpecOf(header, "local_cu_seqlens").set_name("cu_seqlens");
         SpecOf(header, "x").set_name("local_cu_seqlens");
       })},
      {"local_lengths_exchanged", BrokenStep([](v1::StepHeader& header) {
         SpecOf(header, "local_cu_seqlens").set_name("x");
         SpecOf(header, "local_cu_seqlens_padded").set_name("local_cu_seqlens");
         SpecOf(header, "x").set_name("local_cu_seqlens_padded");
       })},
      {"other_plan", BrokenStep([](v1::StepHeader& header) {
         header.mutable_chunks(0)->set_plan_digest(1);
       })},
      {"other_count", BrokenStep([](v1::StepHeader& header) {
         header.mutable_chunks(0)->set_num_tokens(1);
       })},
      {"claims_many_tokens", BrokenStep([](v1::StepHeader& header) {
         header.mutable_chunks(0)->set_total_tokens(int64_t{1} << 40);
       })},
      {"rows_are_missing", BrokenStep([](v1::StepHeader& header) {
         v1::TensorSpec& ids = SpecOf(header, "input_ids");
         ids.set_shape(0, ids.shape(0) - 1);
       })},
      {"larger_than_payload", BrokenStep([](v1::StepHeader& header) {
         SpecOf(header, "labels").set_shape(0, 1000);
       })},
  };
}

Seeds StepSeeds() {
  return {
      {"balanced", StepSeed(std::string("\x01\x01\x10", 3), PackedRows(), {},
                            Layout::kBalanced)},
      {"chunk_greedy",
       StepSeed(std::string("\x01\x01\x40", 3), CountingBatch(1, 16), {},
                Layout::kChunkGreedy)},
      {"everything_at_once",
       StepSeed(std::string("\x01\x01\x05", 3), EverythingAtOnce(),
                {.auto_pad = true}, Layout::kHeadTailPerSequence)},
      {"two_chunks", StepSeed(std::string("\x01\x00\xff", 3), PackedRows(),
                              {.num_chunks = 2}, Layout::kContiguous)},
  };
}

std::string Bytes(std::initializer_list<int> numbers) {
  std::string bytes;
  for (const int number : numbers) bytes += static_cast<char>(number);
  return bytes;
}

// See session_fuzz_test.cc; 4 stands for the number that is expected next.
Seeds SessionSeeds() {
  const std::string open = Bytes({0, 0, 4, 0, 1, 4});
  const std::string put_a = Bytes({2, 0, 6, 10, 0, 3, 0, 4});
  const std::string put_b = Bytes({2, 1, 6, 20, 0, 3, 1, 2});
  const std::string attach =
      Bytes({8, 0, 1, 4, 0, 8, 1, 1, 4, 0, 8, 2, 1, 4, 0, 8, 3, 1, 4, 0});
  const std::string send_all = Bytes({10, 0, 1, 10, 1, 1, 10, 2, 1, 10, 3, 1});
  const std::string ack_all = Bytes({13, 0, 4, 13, 1, 4, 13, 2, 4, 13, 3, 4});
  const std::string commit = Bytes({14, 0, 4});
  const std::string finish = Bytes({6, 0, 4, 6, 1, 4});
  const std::string go_back = Bytes({15, 0, 6, 5, 1, 5, 1});
  const std::string round = put_a + send_all + ack_all + put_b + send_all;
  const std::string events = open + attach + round + ack_all + commit + round;
  return {
      {"duplicate_and_gap",
       Bytes({0}) + open + put_a + Bytes({2, 0, 5, 10, 0, 2, 0, 8, 10, 0})},
      {"grow_and_reject",
       Bytes({0}) + open + Bytes({2, 0, 6, 10, 0, 4, 0, 4, 99, 5, 0, 4})},
      {"replay", Bytes({0}) + events + go_back + events},
      {"retain", Bytes({1}) + events + go_back + attach + send_all},
      {"to_the_end", Bytes({0}) + events + finish + send_all + ack_all},
  };
}

// `options` are the two bytes before the cursor.
std::string CursorSeed(const std::string& options, int64_t step,
                       int64_t sequence, bool finished) {
  v1::Cursor cursor;
  cursor.set_step(step);
  for (const char* id : {"a", "b"}) {
    v1::ProducerCursor& producer = *cursor.add_producers();
    producer.set_producer(id);
    producer.set_next_sequence(sequence);
    producer.set_producer_state("state");
    producer.set_finished(finished);
  }
  return options + cursor.SerializeAsString();
}

Seeds CursorSeeds() {
  return {
      {"behind_the_beginning", CursorSeed(Bytes({1, 2}), -1, 0, false)},
      {"finished", CursorSeed(Bytes({1, 0}), 9, 5, true)},
      {"largest_numbers",
       CursorSeed(Bytes({1, 0}), INT64_MAX, INT64_MAX, false)},
      {"not_sealed", CursorSeed(Bytes({0, 7}), 1, 1, false)},
      {"retained", CursorSeed(Bytes({1, 7}), 1, 1, false)},
  };
}

void Write(const std::filesystem::path& folder, const Seeds& seeds) {
  std::filesystem::create_directories(folder);
  for (const auto& [name, bytes] : seeds) {
    std::ofstream file(folder / name, std::ios::binary);
    file << bytes;
    CF_CHECK(file.good());
  }
}

}  // namespace
}  // namespace cpfeed

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::filesystem::path corpus = argv[1];
  cpfeed::Write(corpus / "batch_fuzz_test", cpfeed::BatchSeeds());
  cpfeed::Write(corpus / "batch_fuzz_test", cpfeed::BrokenBatches());
  cpfeed::Write(corpus / "cursor_fuzz_test", cpfeed::CursorSeeds());
  cpfeed::Write(corpus / "frame_fuzz_test", cpfeed::FrameSeeds());
  cpfeed::Write(corpus / "session_fuzz_test", cpfeed::SessionSeeds());
  cpfeed::Write(corpus / "small_batch_fuzz_test", cpfeed::SmallBatchSeeds());
  cpfeed::Write(corpus / "step_fuzz_test", cpfeed::StepSeeds());
  cpfeed::Write(corpus / "step_fuzz_test", cpfeed::BrokenSteps());
  return 0;
}
