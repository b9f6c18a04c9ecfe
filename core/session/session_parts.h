// What a session is made of, and what its calls return.

#ifndef CPFEED_CORE_SESSION_SESSION_PARTS_H_
#define CPFEED_CORE_SESSION_SESSION_PARTS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace cpfeed {

// A batch that became a step.
struct PublishedStep {
  int64_t step = 0;
  int producer = 0;  // Its place in SessionConfig::producers.
  int64_t sequence = 0;
};

// What became of a batch's header.
struct Admission {
  bool duplicate = false;
  int64_t step = -1;  // Of a duplicate; -1 where none is published (any more).
};

// What a consumer may be sent now.
struct Delivery {
  enum class Kind {
    kNothing,  // Wait for the state to change.
    kStep,     // `step` is next; see Session::TrySend.
    kEnd,      // There is no more; `step` is the number of steps.
  };
  Kind kind = Kind::kNothing;
  int64_t step = 0;
};

// Where one producer stands.
struct ProducerState {
  std::string id;
  int64_t incarnation = -1;
  int64_t connection = 0;  // 0 while no stream is open.
  int64_t next_sequence = 0;
  bool finished = false;
  int64_t credit_bytes = 0;         // Payload that it may still send.
  int64_t pending_grant_bytes = 0;  // What it has not been told of.
  struct Batch {
    int64_t sequence = 0;
    uint64_t digest = 0;
    int64_t cost_bytes = 0;
  };
  std::deque<Batch> receiving;  // Admitted, not complete; from
                                // next_sequence on.
  std::deque<Batch> waiting;    // Complete, for its turn.
  int64_t charged_bytes = 0;    // Of receiving and waiting batches.
  struct Known {
    uint64_t digest = 0;
    int64_t step = 0;  // -1 from a seek before it until it comes again.
  };
  std::map<int64_t, Known> known;  // Published, by sequence, until commit.
};

// Where one consumer stands.
struct ConsumerState {
  int64_t incarnation = -1;
  int64_t connection = 0;  // 0 while no stream is open.
  int64_t acked_step = -1;
  int64_t next_step = 0;
  int64_t first_unsent = 0;  // Behind the last step that it was ever sent.
  int64_t credit_bytes = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_SESSION_SESSION_PARTS_H_
