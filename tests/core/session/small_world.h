// A small session and the model of it: what loaders, ranks and the trainer did.

#ifndef CPFEED_TESTS_CORE_SESSION_SMALL_WORLD_H_
#define CPFEED_TESTS_CORE_SESSION_SMALL_WORLD_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/session/session.h"
#include "core/session/session_config.h"

namespace cpfeed::testing {

// Can be copied. Events that are not possible now return false and change
// nothing; what breaks the contract is in problem().
class SmallWorld {
 public:
  explicit SmallWorld(Retention retention);

  static constexpr int kProducers = 2;
  static constexpr int kConsumers = 4;
  static constexpr int kEvents = 6 * kProducers + 5 * kConsumers + 2;

  // Faults that are still to come, at most.
  void AllowFaults(int most) { faults_left_ = most; }

  // Event 0 <= number < kEvents.
  bool Apply(int number);
  static std::string NameOf(int number);

  // Asks what must not change anything: old streams, duplicates, conflicts,
  // gaps, acknowledgements of what was not sent.
  void Probe();

  // Everybody goes on without faults: all must get to the end.
  void Complete();

  const std::string& problem() const { return problem_; }

  // Equal for states between which nobody can tell a difference.
  std::string Key() const;

 private:
  struct Loader {
    int64_t connection = 0;
    int64_t stale = 0;
    int64_t incarnation = 0;
    int64_t admitted = 0;  // Batches whose header was taken.
    int64_t complete = 0;  // Of those, converted.
    bool finished = false;
  };
  struct Rank {
    int64_t connection = 0;
    int64_t stale = 0;
    int64_t incarnation = 0;
    int64_t acked = -1;
    int64_t next = 0;
    int64_t unsent = 0;
    int64_t credit = 0;
    bool at_end = false;
  };
  using Batch = std::pair<int, int64_t>;  // Producer and sequence.

  void Expect(bool holds, const std::string& what);
  bool TakeFault();

  bool Open(int p);
  bool Admit(int p);
  bool Convert(int p);
  bool Reject(int p);
  bool Finish(int p);
  bool Break(int p);
  void OnPublished(const std::vector<PublishedStep>& published);
  bool Attach(int c);
  bool Send(int c);
  bool Ack(int c);
  bool Grant(int c);
  bool Leave(int c);
  bool Commit();
  bool Seek();

  void ProbeLoader(int p);
  void ProbeRank(int c);
  void CheckBooks();
  int64_t SlowestAcked() const;
  int64_t FirstNeeded() const;
  bool AllFinished() const;

  Session session_;
  std::array<Loader, kProducers> loaders_;
  std::array<Rank, kConsumers> ranks_;
  std::vector<Batch> steps_;  // Published, as of now.
  // Whether a batch's content is remembered: from its first publishing to its
  // commit, seeks or not.
  std::array<std::array<bool, 3>, kProducers> known_{};
  int64_t committed_ = -1;
  int64_t freed_ = 0;
  int64_t generation_ = 1;
  int faults_left_ = 0;
  std::string problem_;
};

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_SESSION_SMALL_WORLD_H_
