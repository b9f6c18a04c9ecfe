// Any events in any order: the books stay in order, steps are published without
// gaps, and consumers get them so.
//
// Input: retention (1 byte), then events: kind, who, numbers (1 byte each).

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/session/session.h"
#include "core/session/session_config.h"
#include "tests/fuzz/fuzz_input.h"

namespace cpfeed {
namespace {

constexpr int kRanks = 2;
constexpr int kConsumersPerRank = 2;
constexpr int64_t kLargest = 100;

SessionConfig ConfigFor(uint8_t retention) {
  return {
      .cp_size = kRanks,
      .consumers_per_cp_rank = kConsumersPerRank,
      .producers = {"a", "b"},
      .retention = retention % 2 == 0 ? Retention::kReplay : Retention::kRetain,
      .max_step_skew = 3,
      .max_uncommitted_steps = 4,
      .memory_budget_bytes = 8 * kLargest * kCostPerPayloadByte,
      .max_batch_bytes = kLargest};
}

class Events {
 public:
  explicit Events(testing::FuzzInput input)
      : input_(std::move(input)), session_(ConfigFor(input_.Byte())) {
    CF_CHECK(ValidateConfig(session_.config()).ok());
  }

  void Run() {
    while (!input_.empty()) {
      const int kind = input_.Byte() % 16;
      const int who = input_.Byte();
      if (kind < 8) {
        ProducerEvent(kind, who % 2);
      } else if (kind < 14) {
        ConsumerEvent(kind, who % (kRanks * kConsumersPerRank));
      } else if (kind == 14) {
        const int64_t next_step = session_.next_step();
        const absl::Status status = session_.Commit(Number(next_step - 1));
        CF_CHECK(!status.ok() || session_.committed_step() < next_step);
      } else {
        SeekSomewhere();
      }
      CF_CHECK(session_.CheckInvariants().empty());
    }
  }

 private:
  // Mostly near `base`, else far away.
  int64_t Number(int64_t base) {
    constexpr int64_t kFar[] = {INT64_MIN, INT64_MIN + 1,      -1,
                                INT32_MAX, int64_t{1} << 40,   INT64_MAX - 1,
                                INT64_MAX, -(int64_t{1} << 50)};
    const int byte = input_.Byte();
    if (byte >= 256 - static_cast<int>(std::size(kFar))) {
      return kFar[255 - byte];
    }
    // Where `base` is far away itself it may wrap around.
    return static_cast<int64_t>(static_cast<uint64_t>(base) + byte % 16 - 4);
  }

  void ProducerEvent(int kind, int p) {
    const Session::Producer& producer = session_.producers()[p];
    int64_t& connection = producers_[p];
    switch (kind) {
      case 0: {
        const absl::StatusOr<int64_t> opened =
            session_.OpenProducer(producer.id, Number(producer.incarnation));
        if (opened.ok()) connection = *opened;
        return;
      }
      case 1:
        return session_.CloseProducer(connection);
      case 2:
        return Offer(p);
      case 3:
        return CompleteOldest(p);
      case 4:
        (void)session_.Recharge(connection, Number(producer.next_sequence),
                                input_.Byte() * 4);
        return;
      case 5:
        (void)session_.Reject(connection, Number(producer.next_sequence));
        return;
      case 6:
        CheckPublished(
            session_.Finish(connection, Number(producer.next_sequence)));
        return;
      default: {
        const absl::StatusOr<int64_t> grant = session_.TakeGrant(connection);
        CF_CHECK(!grant.ok() || *grant >= 0);
        return;
      }
    }
  }

  void Offer(int p) {
    const Session::Producer& producer = session_.producers()[p];
    const int64_t sequence =
        Number(producer.next_sequence +
               static_cast<int64_t>(producer.receiving.size()) - 2);
    const int64_t bytes = input_.Byte() % (kLargest + 1);
    const auto digest = static_cast<uint64_t>(sequence) ^ input_.Byte() / 250;
    const absl::StatusOr<Admission> admission = session_.Admit(
        producers_[p], sequence, digest, bytes, bytes * kCostPerPayloadByte);
    if (!admission.ok() || !admission->duplicate) return;
    CF_CHECK(admission->step < session_.next_step());
  }

  // Conversions come to their end in order.
  void CompleteOldest(int p) {
    const Session::Producer& producer = session_.producers()[p];
    if (producer.receiving.empty()) return;
    const Session::Producer::Batch batch = producer.receiving.front();
    const int64_t cost = batch.cost_bytes * (input_.Byte() % 5) / 4;
    CheckPublished(session_.Complete(producers_[p], batch.sequence, cost));
  }

  void CheckPublished(
      const absl::StatusOr<std::vector<PublishedStep>>& published) {
    if (!published.ok()) return;
    int64_t step =
        session_.next_step() - static_cast<int64_t>(published->size());
    for (const PublishedStep& next : *published) CF_CHECK(next.step == step++);
  }

  void ConsumerEvent(int kind, int c) {
    const Session::Consumer& consumer = session_.consumers()[c];
    int64_t& connection = consumers_[c];
    switch (kind) {
      case 8:
        return Attach(c);
      case 9:
        return session_.CloseConsumer(connection);
      case 10:
      case 11:
        return Send(c);
      case 12:
        (void)session_.AddCredit(connection, Number(4));
        return;
      default:
        (void)session_.Ack(connection, Number(consumer.next_step - 1));
        return;
    }
  }

  void Attach(int c) {
    const Session::Consumer& consumer = session_.consumers()[c];
    const int64_t unsent = consumer.first_unsent;
    std::optional<int64_t> first;
    if (input_.Byte() % 2 == 0) first = Number(consumer.next_step);
    const absl::StatusOr<int64_t> attached =
        session_.Attach(c / kConsumersPerRank, c % kConsumersPerRank,
                        Number(consumer.incarnation),
                        input_.Byte() % 2 * session_.generation(), first);
    if (!attached.ok()) return;
    consumers_[c] = *attached;
    CF_CHECK(consumer.next_step <= unsent);
  }

  void Send(int c) {
    const Session::Consumer& consumer = session_.consumers()[c];
    const int64_t step = consumer.next_step;
    const absl::StatusOr<bool> sent =
        session_.TrySend(consumers_[c], input_.Byte() % 16);
    if (!sent.ok() || !*sent) return;
    CF_CHECK(consumer.next_step == step + 1);
    CF_CHECK(session_.first_held_step() <= step);
    CF_CHECK(step < session_.next_step());
  }

  void SeekSomewhere() {
    const int64_t generation = session_.generation();
    const int64_t step = Number(session_.next_step() - 4);
    std::vector<int64_t> next_sequences;
    std::vector<bool> finished;
    for (const Session::Producer& producer : session_.producers()) {
      next_sequences.push_back(Number(producer.next_sequence - 2));
      finished.push_back(input_.Byte() % 8 == 0);
    }
    if (!session_.Seek(step, next_sequences, finished).ok()) return;
    CF_CHECK(session_.generation() == generation + 1);
    for (const Session::Consumer& consumer : session_.consumers()) {
      CF_CHECK(consumer.next_step == step + 1);
    }
  }

  testing::FuzzInput input_;
  Session session_;
  int64_t producers_[2] = {};
  int64_t consumers_[kRanks * kConsumersPerRank] = {};
};

}  // namespace
}  // namespace cpfeed

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cpfeed::Events(cpfeed::testing::FuzzInput(data, size)).Run();
  return 0;
}
