// Random events against a model that knows nothing of how the session keeps its
// books.

#ifndef CPFEED_TESTS_CORE_SESSION_RANDOM_EVENTS_H_
#define CPFEED_TESTS_CORE_SESSION_RANDOM_EVENTS_H_

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "core/session/session.h"
#include "core/session/session_config.h"

namespace cpfeed::testing {

// Three producers and two ranks of two consumers each, with a session and the
// model of it. What differs is a failure of the test that runs.
class RandomEvents {
 public:
  RandomEvents(Retention retention, uint64_t seed);

  // Ends early where something differs.
  void Run(int num_events);

  // So that no run passes for want of events.
  int64_t num_deliveries() const { return num_deliveries_; }
  int64_t num_seeks() const { return num_seeks_; }
  bool ended() const { return ended_; }

 private:
  using Batch = std::pair<int, int64_t>;  // Producer and sequence.
  struct UnderWay {
    int64_t sequence = 0;
    int64_t bytes = 0;
  };
  struct Feed {
    int64_t connection = 0;  // 0: none.
    int64_t stale_connection = 0;
    int64_t incarnation = 0;
    int64_t credit = 0;  // As it was told.
    int64_t num_batches = 0;
    bool finished = false;
    std::vector<UnderWay> under_way;
  };
  struct Reader {
    int64_t connection = 0;
    int64_t stale_connection = 0;
    int64_t incarnation = 0;
    int64_t acked = -1;
    int64_t next = 0;
    int64_t unsent = 0;  // Behind the last that it was ever sent.
    int64_t credit = 0;
  };
  // What a cursor behind a step says.
  struct Cursor {
    std::vector<int64_t> next_sequences;
    std::vector<bool> finished;
  };

  static SessionConfig ConfigFor(Retention retention);
  int64_t Uniform(int64_t least, int64_t most);
  bool OneIn(int count) { return Uniform(1, count) == 1; }

  // ---- Producers ----

  void ProducerEvent(int p);
  void OpenProducer(int p);
  void ForgetStream(Feed& feed);
  void CloseProducer(int p);
  void OfferNext(int p);

  // A retry of a batch that was taken, mostly with the same content.
  void OfferKnown(int p);
  void OfferGap(int p);
  void RejectOne(int p);
  void CompleteOldest(int p);
  void FinishProducer(int p);

  // All or none, in turn order, without gaps.
  void CheckPublished(int64_t first_new,
                      const std::vector<PublishedStep>& published);

  // ---- Consumers ----

  void ConsumerEvent(int c);
  void DropReader(int c);
  void AttachReader(int c);
  void AddCredit(Reader& reader);
  void AckSome(Reader& reader);
  void SendOne(int c);

  // ---- The trainer ----

  void CommitSomething();
  void SeekSomewhere();
  void RewindReader(Reader& reader, int64_t step);
  void RewindProducers(int64_t step, const Cursor& cursor);
  Cursor CursorBehind(int64_t step) const;

  // ---- The model's view of the whole ----

  int64_t SlowestAcked() const;
  int64_t FirstNeeded() const;
  bool AllPublished() const;
  void Compare();

  static constexpr int kProducers = 3;
  static constexpr int kRanks = 2;
  static constexpr int kConsumersPerRank = 2;
  static constexpr int kConsumers = kRanks * kConsumersPerRank;
  static constexpr int64_t kSkew = 4;
  static constexpr int64_t kLargest = 100;

  std::mt19937_64 random_;
  Session session_;
  std::vector<Feed> feeds_ = std::vector<Feed>(kProducers);
  std::vector<Reader> readers_ = std::vector<Reader>(kConsumers);
  std::vector<Batch> steps_;
  std::vector<std::vector<bool>> finished_at_;  // When a step was published.
  std::map<Batch, int64_t> costs_;
  int64_t generation_ = 1;
  int64_t committed_ = -1;
  int64_t most_committed_ = -1;
  int64_t freed_ = 0;
  int64_t num_deliveries_ = 0;
  int64_t num_seeks_ = 0;
  bool ended_ = false;
};

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_SESSION_RANDOM_EVENTS_H_
