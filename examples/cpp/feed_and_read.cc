// Feeds one batch into a session of two ranks and prints what each rank reads.
// Both ends go on by themselves when a stream breaks or the server is started
// anew; client/feeder.h and client/shard_reader.h have the single streams.
//
//   g++ feed_and_read.cc $(pkg-config --cflags --libs cpfeed) -o feed_and_read
//   ./feed_and_read 127.0.0.1:8470

#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/feed.h"
#include "client/resuming_reader.h"
#include "client/session_client.h"
#include "core/base/status_macros.h"
#include "core/batch/packed_batch.h"
#include "core/tensor/tensor.h"

namespace {

constexpr char kSession[] = "sessions/example";

// One row of eight tokens: a sequence of four, and one of three in a slot of
// four.
cpfeed::PackedBatch MakeBatch() {
  cpfeed::PackedBatch batch;
  batch.input_ids = cpfeed::Tensor::FromVector<int64_t>(
      {1, 8}, {100, 101, 102, 103, 104, 105, 106, 107});
  batch.labels = cpfeed::Tensor::FromVector<int64_t>(
      {1, 8}, {101, 102, 103, -100, 105, 106, -100, -100});
  batch.seq_lens = {.values = {4, 3}, .row_splits = {0, 2}};
  batch.seq_lens_padded = {.values = {4, 4}, .row_splits = {0, 2}};
  return batch;
}

absl::Status Feed(const std::shared_ptr<grpc::Channel>& channel) {
  int64_t next = 0;
  const cpfeed::BatchStream batches = {
      .next = [&]() -> absl::StatusOr<std::optional<cpfeed::OutgoingBatch>> {
        if (next == 1) return std::nullopt;  // The end of the data.
        ++next;
        return cpfeed::OutgoingBatch{.batch = MakeBatch(),
                                     .info = {.batch_id = "example"}};
      },
      // The session says which batch it wants.
      .go_to =
          [&](int64_t next_sequence, const std::optional<std::string>&) {
            next = next_sequence;
            return absl::OkStatus();
          }};
  return cpfeed::Feed(channel, {.stream = {.session = kSession}}, batches)
      .status();
}

absl::Status Read(const std::shared_ptr<grpc::Channel>& channel, int cp_rank) {
  CF_ASSIGN_OR_RETURN(
      const std::unique_ptr<cpfeed::ResumingReader> reader,
      cpfeed::ResumingReader::Attach(
          channel,
          {.reader = {.session = kSession, .cp_rank = cp_rank, .cp_size = 2}}));
  while (true) {
    CF_ASSIGN_OR_RETURN(const std::optional<cpfeed::ReceivedStep> step,
                        reader->Next());
    if (!step) return absl::OkStatus();  // The end of the data.
    if (step->kind != cpfeed::ReceivedStep::Kind::kStep) continue;
    std::cout << "rank " << cp_rank << " step " << step->header.step() << ":";
    for (const cpfeed::NamedTensor& named : step->shard.chunks[0].tensors) {
      if (named.name != "input_ids") continue;
      CF_ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                          named.tensor.ToInt64());
      for (const int64_t id : ids) std::cout << " " << id;
    }
    std::cout << "\n";
    reader->Ack(step->header.step());
  }
}

absl::Status Run(const std::string& server) {
  const std::shared_ptr<grpc::Channel> channel = cpfeed::MakeChannel(server);
  cpfeed::v1::CreateSessionRequest request;
  request.set_session_id("example");
  request.mutable_session()->mutable_topology()->set_cp_size(2);
  CF_RETURN_IF_ERROR(cpfeed::CreateSession(channel, request).status());
  CF_RETURN_IF_ERROR(Feed(channel));
  for (const int cp_rank : {0, 1}) {
    CF_RETURN_IF_ERROR(Read(channel, cp_rank));
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "Usage: feed_and_read ADDRESS\n";
    return 2;
  }
  const absl::Status status = Run(argv[1]);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
