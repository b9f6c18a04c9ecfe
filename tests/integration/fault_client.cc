// A loader or a rank as a process of its own, which a test lets die:
//
//   fault_client loader SERVER PRODUCER BATCHES [POINT:N]
//   fault_client rank SERVER CP_RANK CONSUMER FILE [POINT:N]
//
// A rank appends what it gets to FILE, "step N BYTES\n", the bytes of all
// tensors and "\n", before it acknowledges it; started again it goes on behind
// the last whole record. The leader keeps its cursors in FILE.cursors, and
// makes the session.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/feed.h"
#include "client/resuming_reader.h"
#include "client/session_client.h"
#include "core/base/status_macros.h"
#include "transport/fault_point.h"

namespace cpfeed {
namespace {

constexpr char kSession[] = "sessions/train";
constexpr int64_t kRowWidth = 512;  // Several chunks of 1 KiB.
constexpr int kSkew = 4;

RetryOptions Quick() {
  return {.first_pause = absl::Milliseconds(20),
          .most_pause = absl::Milliseconds(200),
          .give_up_after = absl::Seconds(60)};
}

v1::CreateSessionRequest SessionRequest() {
  v1::CreateSessionRequest request;
  request.set_session_id("train");
  v1::Session& session = *request.mutable_session();
  session.mutable_topology()->set_cp_size(2);
  session.mutable_topology()->set_consumers_per_cp_rank(2);
  session.add_producers("a");
  session.add_producers("b");
  session.mutable_delivery()->set_max_step_skew(kSkew);
  session.mutable_limits()->set_max_batch_bytes(32 << 10);
  session.mutable_limits()->set_max_message_bytes(1024);
  session.mutable_limits()->set_memory_budget_bytes(4 << 20);
  return request;
}

// A pure function of producer and number.
OutgoingBatch BatchOf(const std::string& producer, int64_t number) {
  std::vector<int64_t> ids(kRowWidth);
  for (int64_t i = 0; i < kRowWidth; ++i) {
    ids[i] = 1'000'000 * (producer[0] - 'a') + 1000 * number + i;
  }
  PackedBatch batch;
  batch.input_ids = Tensor::FromVector<int64_t>({1, kRowWidth}, ids);
  batch.labels = batch.input_ids;
  batch.seq_lens = RaggedLengths{{100, 412}, {0, 2}};
  batch.seq_lens_padded = batch.seq_lens;
  return {.batch = std::move(batch),
          .info = {.batch_id = absl::StrCat(producer, number),
                   .producer_state = absl::StrCat(number + 1),
                   .data_epoch = number / 5}};
}

absl::Status RunLoader(const std::string& server, const std::string& producer,
                       int64_t num_batches) {
  int64_t next = 0;
  const BatchStream stream = {
      .next = [&]() -> absl::StatusOr<std::optional<OutgoingBatch>> {
        if (next == num_batches) return std::nullopt;
        return BatchOf(producer, next++);
      },
      .go_to =
          [&](int64_t next_sequence, const std::optional<std::string>& state) {
            next = 0;
            const bool agrees = (!state || absl::SimpleAtoi(*state, &next)) &&
                                next == next_sequence;
            return agrees ? absl::OkStatus()
                          : absl::InternalError("state is another batch's");
          }};
  return Feed(MakeChannel(server),
              {.stream = {.session = kSession,
                          .producer = producer,
                          .session_wait = absl::Seconds(20)},
               .retry = Quick(),
               .until_read = true},
              stream)
      .status();
}

// What a rank has on its disk.
class Record {
 public:
  explicit Record(std::string path) : path_(std::move(path)) { Read(); }

  std::optional<int64_t> last_step() const { return last_step_; }
  bool ended() const { return ended_; }
  const std::string& cursor() const { return cursor_; }

  void AddStep(const ReceivedStep& received) {
    if (!received.cursor.empty()) {
      std::ofstream(path_ + ".cursors", std::ios::app)
          << received.header.step() << " "
          << absl::BytesToHexString(received.cursor) << "\n";
    }
    std::string bytes;
    for (const Shard& chunk : received.shard.chunks) {
      for (const NamedTensor& named : chunk.tensors) {
        const size_t begin = bytes.size();
        bytes.resize(begin + named.tensor.bytes.size());
        named.tensor.bytes.CopyTo(bytes.data() + begin);
      }
    }
    Append(absl::StrCat("step ", received.header.step(), " ", bytes.size(),
                        "\n", bytes, "\n"));
  }

  void AddLine(const std::string& line) {
    if (line == last_line_) return;  // Told before the process died.
    last_line_ = line;
    Append(line + "\n");
  }

 private:
  void Append(const std::string& text) {
    std::ofstream(path_, std::ios::app | std::ios::binary) << text;
  }

  // Cuts a last record that is not whole.
  void Read() {
    std::ifstream file(path_, std::ios::binary);
    if (!file) return;
    const std::string all((std::istreambuf_iterator<char>(file)), {});
    size_t whole = 0;
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find('\n', at);
      if (end == std::string::npos) break;
      std::istringstream line(all.substr(at, end - at));
      std::string word;
      int64_t step = 0;
      size_t bytes = 0;
      line >> word >> step >> bytes;
      const size_t rest = word == "step" ? bytes + 1 : 0;
      if (end + 1 + rest > all.size()) break;
      if (word == "step") last_step_ = step;
      last_line_ = word == "step" ? "" : all.substr(at, end - at);
      ended_ = word == "end";
      at = whole = end + 1 + rest;
    }
    std::filesystem::resize_file(path_, whole);
    ReadCursor();
  }

  // Of the newest step that every rank has surely acknowledged.
  void ReadCursor() {
    std::ifstream file(path_ + ".cursors");
    int64_t step = 0;
    std::string hex;
    while (file >> step >> hex) {
      if (last_step_ && step <= *last_step_ - kSkew) {
        cursor_ = absl::HexStringToBytes(hex);
      }
    }
  }

  const std::string path_;
  std::optional<int64_t> last_step_;
  std::string last_line_;
  bool ended_ = false;
  std::string cursor_;
};

absl::Status RunRank(const std::string& server, int cp_rank, int consumer,
                     const std::string& path) {
  Record record(path);
  if (record.ended()) return absl::OkStatus();
  ResumingReaderOptions options{.reader = {.session = kSession,
                                           .cp_rank = cp_rank,
                                           .consumer = consumer,
                                           .credit_bytes = 16 << 10,
                                           .session_wait = absl::Seconds(60)},
                                .retry = Quick()};
  if (record.last_step()) options.reader.first_step = *record.last_step() + 1;
  if (cp_rank == 0 && consumer == 0) {
    options.create = SessionRequest();
    if (!record.cursor().empty()) {
      options.create->mutable_start_cursor()->ParseFromString(record.cursor());
    }
  }
  CF_ASSIGN_OR_RETURN(const std::unique_ptr<ResumingReader> reader,
                      ResumingReader::Attach(MakeChannel(server), options));
  while (true) {
    CF_ASSIGN_OR_RETURN(const std::optional<ReceivedStep> received,
                        reader->Next());
    if (!received) break;
    const int64_t step = received->header.step();
    if (received->kind == ReceivedStep::Kind::kEpochEnd) {
      record.AddLine(absl::StrCat("epoch ", received->header.data_epoch(),
                                  " ends with ", step));
      continue;
    }
    record.AddStep(*received);
    reader->Ack(step);
  }
  record.AddLine("end");
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& args) {
  const bool is_loader = args.at(0) == "loader";
  const size_t fault = is_loader ? 4 : 5;
  if (args.size() > fault) CF_RETURN_IF_ERROR(ArmFaultPoint(args[fault]));
  if (is_loader)
    return RunLoader(args.at(1), args.at(2), std::stoi(args.at(3)));
  return RunRank(args.at(1), std::stoi(args.at(2)), std::stoi(args.at(3)),
                 args.at(4));
}

}  // namespace
}  // namespace cpfeed

int main(int argc, char** argv) {
  const absl::Status status = cpfeed::Run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  std::cerr << "fault_client: " << status.ToString() << std::endl;
  return 1;
}
